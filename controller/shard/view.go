package shard

import (
	"cmp"
	"slices"
	"strconv"
	"time"

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
			v.add(group, &peer{
				lease: lease, of: of, joined: lease.Annotations[joinedAnnotation],
				leaving: lease.Annotations[leavingAnnotation] != "", ended: holderOf(lease) == "", duration: duration,
			})
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

// add adds the incarnation that a lease is named after: an ended lease does not name its holder.
func (v *view) add(group Group, p *peer) {
	if prefix := memberLease(group.Name, ""); len(p.lease.Name) > len(prefix) && p.lease.Name[:len(prefix)] == prefix {
		p.id = p.lease.Name[len(prefix):]
		v.members[p.id] = p
	}
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
