package shard

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// view is the state of the leases at one moment. All members see the same history, some later than
// others, because it is one resource with one watch.
type view struct {
	members map[string]*peer // by incarnation; includes ended ones
	claims  []claim          // by the index of the shard
	strange []claim          // claims by members that know another number of shards
	odd     []string         // problems of leases that no member can have written
	version string           // the view is complete up to it
}

// peer is an incarnation of a member.
type peer struct {
	id       string
	lease    *coordinationv1.Lease
	of       int
	joined   string // "" until the member publishes it
	leaving  bool
	ended    bool
	duration time.Duration
}

// claim is the content of a shard's lease.
type claim struct {
	lease    *coordinationv1.Lease // nil if there is none
	holder   string                // the incarnation; "" for none
	duration time.Duration
}

func (c claim) version() string {
	if c.lease == nil {
		return ""
	}
	return c.lease.ResourceVersion
}

// newView reads the leases of a group.
func newView(group Group, leases func(yield func(*coordinationv1.Lease) bool), otherwise time.Duration) *view {
	v := &view{members: map[string]*peer{}, claims: make([]claim, group.Shards)}
	for lease := range leases {
		of, _ := strconv.Atoi(lease.Annotations[ofAnnotation])
		duration := durationOf(lease, otherwise)
		if odd := oddity(lease); odd != "" {
			v.odd = append(v.odd, odd)
		}
		label, isShard := lease.Labels[shardLabel]
		if !isShard {
			// An ended lease does not name its holder, but is named after it.
			if id, ok := strings.CutPrefix(lease.Name, memberLease(group.Name, "")); ok && id != "" {
				v.members[id] = &peer{
					id: id, lease: lease, of: of, joined: lease.Annotations[joinedAnnotation],
					leaving: lease.Annotations[leavingAnnotation] != "", ended: holderOf(lease) == "", duration: duration,
				}
			}
			continue
		}
		c := claim{lease: lease, holder: holderOf(lease), duration: duration}
		if of != group.Shards && c.holder != "" {
			v.strange = append(v.strange, c)
		}
		if index, err := strconv.Atoi(label); err == nil && index >= 0 && index < group.Shards {
			v.claims[index] = c
		}
	}
	return v
}

// alive returns the living incarnations, in the same order for all members.
func (v *view) alive() []*peer {
	var alive []*peer
	for _, p := range v.members {
		if !p.ended {
			alive = append(alive, p)
		}
	}
	slices.SortFunc(alive, func(a, b *peer) int { return cmp.Compare(a.id, b.id) })
	return alive
}

// candidates returns the incarnations that want shards of a group.
func (v *view) candidates(group Group) []string {
	var ids []string
	for _, p := range v.alive() {
		if p.joined != "" && !p.leaving && p.of == group.Shards && !v.behind(p) {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// behind reports whether a member with another number of shards joined before an incarnation.
func (v *view) behind(p *peer) bool {
	for _, other := range v.members {
		if !other.ended && other.of != p.of && other.joined != "" && newer(p.joined, other.joined) {
			return true
		}
	}
	return false
}

// named reports whether an incarnation is the holder of a shard.
func (v *view) named(id string) bool {
	return slices.ContainsFunc(v.claims, func(c claim) bool { return c.holder == id })
}

// sight is a member's view of the leases, with times. All fields except wake belong to one
// goroutine.
type sight struct {
	leases *informer.Informer[*coordinationv1.Lease]
	wake   chan struct{}                    // something has changed
	seen   map[string]sighting              // by the name of a lease, or of a holder without a lease
	known  map[string]*coordinationv1.Lease // the results of writes that the cache may not show yet
}

// sighting is the time, on our own clock, at which a version of a lease was first seen. The writer
// wrote it earlier, so a reader that counts from here counts longer than the writer.
type sighting struct {
	version string
	at      time.Time
}

// Handle implements [informer.Handler].
func (s *sight) Handle(context.Context, eventqueue.Event[*coordinationv1.Lease]) error {
	s.poke()
	return nil
}

func (s *sight) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// all iterates over the leases.
func (s *sight) all(yield func(*coordinationv1.Lease) bool) {
	cache := s.leases.Cache()
	shown := cache.ResourceVersion() // read before the walk, which may show more
	for name, lease := range s.known {
		if !newer(lease.ResourceVersion, shown) {
			delete(s.known, name)
		}
	}
	walked := map[string]bool{}
	for key, lease := range cache.All() {
		walked[key.Name] = true
		if known := s.known[key.Name]; known != nil && newer(known.ResourceVersion, lease.ResourceVersion) {
			lease = known
		}
		if !yield(lease) {
			return
		}
	}
	for name, lease := range s.known {
		if !walked[name] && !yield(lease) {
			return
		}
	}
}

// look reads the leases, and records changes. It also returns the time.
func (s *sight) look(o *options, group Group) (*view, time.Time) {
	version := s.leases.Cache().ResourceVersion()
	v := newView(group, s.all, o.lease)
	v.version = version
	now := o.clock.now() // read after the leases: they were written before now
	used := map[string]bool{}
	note := func(name, version string) {
		used[name] = true
		if old, ok := s.seen[name]; !ok || old.version != version {
			s.seen[name] = sighting{version, now}
		}
	}
	for _, p := range v.members {
		note(p.lease.Name, p.lease.ResourceVersion)
	}
	for _, claims := range [][]claim{v.claims, v.strange} {
		for _, c := range claims {
			if c.holder != "" && v.members[c.holder] == nil {
				note(memberLease(group.Name, c.holder), "") // no lease has such a version
			}
		}
	}
	for name := range s.seen {
		if !used[name] {
			delete(s.seen, name)
		}
	}
	return v, now
}

// since returns when an incarnation last changed its lease, or when its lease was first missing.
func (s *sight) since(group Group, incarnation string) time.Time {
	return s.seen[memberLease(group.Name, incarnation)].at
}

// assign computes the target member of each shard from the current holders. In both slices "" means
// no member, and a holder that is not a member does not count. The shares of two members differ by
// one at most. As few shards as possible move: a member keeps its shards up to its share.
//
// Members may look at different moments of the same history. Members that look later assign the
// free shards as the earlier ones did: the shares do not depend on the progress of other members,
// and a free shard goes to the member with the highest preference among those with room.
func assign(members, holders []string) []string {
	target := make([]string, len(holders))
	if len(members) == 0 {
		return target
	}
	held := make(map[string][]int, len(members))
	for _, m := range members {
		held[m] = nil
	}
	for i, holder := range holders {
		if _, ok := held[holder]; ok {
			held[holder] = append(held[holder], i)
		}
	}
	share := shares(members, held, len(holders))
	for m, mine := range held {
		if room := share[m]; len(mine) > room {
			slices.SortFunc(mine, func(a, b int) int { return cmp.Or(cmp.Compare(wants(m, b), wants(m, a)), cmp.Compare(b, a)) })
			mine = mine[:room]
		}
		for _, i := range mine {
			target[i] = m
		}
		share[m] -= len(mine) // room for others
	}
	for i := range target {
		if target[i] != "" {
			continue
		}
		best := ""
		for _, m := range members {
			if share[m] > 0 && (best == "" || cmp.Or(cmp.Compare(wants(m, i), wants(best, i)), cmp.Compare(best, m)) > 0) {
				best = m
			}
		}
		target[i] = best
		share[best]--
	}
	return target
}

// shares returns the share of each member. If the number of shards is not divisible, members that
// already hold one more get one more.
func shares(members []string, held map[string][]int, n int) map[string]int {
	least, more := n/len(members), n%len(members)
	order := slices.Clone(members)
	extra := func(m string) int { return min(max(len(held[m])-least, 0), 1) }
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(
			cmp.Compare(extra(b), extra(a)),
			cmp.Compare(wants(a, -1), wants(b, -1)),
			cmp.Compare(a, b),
		)
	})
	share := make(map[string]int, len(order))
	for i, m := range order {
		share[m] = least
		if i < more {
			share[m]++
		}
	}
	return share
}

// wants returns the preference of a member for a shard. Every member computes the same number.
func wants(member string, shard int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(member + "/" + strconv.Itoa(shard)))
	x := h.Sum64()
	// The last bytes have hardly changed the upper bits.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
