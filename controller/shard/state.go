package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// ErrForeignLease means that the group has leases that no member wrote. Delete them.
var ErrForeignLease = errors.New("leases that no member wrote")

// Phase is the phase of a member.
type Phase string

const (
	// Stopped means that Run has not been called, or has returned.
	Stopped Phase = "Stopped"
	// Joining means that the member has no lease.
	Joining Phase = "Joining"
	// Waiting means that earlier members know another number of shards.
	Waiting Phase = "Waiting"
	// Sharing means that the member takes and gives shards.
	Sharing Phase = "Sharing"
	// Leaving means that the member gives up its shards.
	Leaving Phase = "Leaving"
)

// State is the state of a member, and its view of the others. It is a value; do not change its
// slices.
type State struct {
	Phase Phase
	// Incarnation is the identity with a unique suffix. A member that has lost its lease comes back
	// with another one.
	Incarnation string
	// Renewed is the start of the last successful renewal.
	Renewed time.Time
	// Err is the last failure; nil again after the next renewal.
	Err error
	// Members are the members with living leases, in the order of their incarnations.
	Members []MemberState
	// Shards are all shards, in their order.
	Shards []ShardState
	// Foreign describes leases of the group that a member cannot have written, such as a shard's
	// lease whose holder is not a member. It has at most three entries.
	Foreign []string

	overdue time.Time // since when a RunFunc is overdue; zero if none is
}

// same reports whether two states are the same for [Member.Changed].
func same(a, b *State) bool {
	return a.Phase == b.Phase && a.Incarnation == b.Incarnation && reflect.DeepEqual(a.Err, b.Err) &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.Shards, b.Shards) && slices.Equal(a.Foreign, b.Foreign)
}

// MemberState is a member, according to its lease.
type MemberState struct {
	Incarnation string
	Shards      int  // the number of its shards
	Of          int  // the number of shards that it knows
	Leaving     bool // it wants no shards any more
}

// ShardState is a shard, according to its lease, and its state in this member.
type ShardState struct {
	Shard
	// Holder is the incarnation that holds the shard; "" if there is none.
	Holder string
	// Target is the incarnation that should hold it, as this member computes it.
	Target string
	// Held means that the RunFunc of this shard runs in this process. Ending means that it was told to
	// end, and Overdue that it did not do so in time: see shard-P2 and shard-P3.
	Held, Ending, Overdue bool
}

// publish updates the State from the leases and the tenures.
func (l *life) publish(v *view, target []string, lost bool) {
	phase := Sharing
	own := v.members[l.id]
	switch {
	case lost || own == nil || own.joined == "":
		phase = Joining
	case l.leaving:
		phase = Leaving
	case !l.passed:
		phase = Waiting
	}
	held := map[string]int{}
	shards := make([]ShardState, len(v.claims))
	overdue := false
	for i, c := range v.claims {
		t := l.tenures[i]
		held[c.holder]++
		shards[i] = ShardState{
			Shard: Shard{Index: i, Of: len(v.claims), Generation: termOf(c.lease)}, Holder: c.holder, Target: target[i],
			Held: t.running, Ending: t.running && (t.ending || lost), Overdue: t.running && t.overdue,
		}
		if p := v.members[c.holder]; p != nil && p.ended {
			shards[i].Holder = ""
		}
		overdue = overdue || shards[i].Overdue
	}
	var members []MemberState
	for _, p := range v.alive() {
		members = append(members, MemberState{Incarnation: p.id, Shards: held[p.id], Of: p.of, Leaving: p.leaving})
	}
	slices.SortFunc(members, func(a, b MemberState) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	foreign, now := l.foreign(v), l.clock.now()
	l.status.Set(func(s *State) {
		s.Phase, s.Members, s.Shards, s.Foreign = phase, members, shards, foreign
		if !overdue {
			s.overdue = time.Time{}
		} else if s.overdue.IsZero() {
			s.overdue = now
		}
	})
	if phase != Joining {
		l.synced.Set()
	}
}

// foreign describes leases that a member cannot have written. It logs new descriptions.
func (l *life) foreign(v *view) []string {
	all := v.odd
	for _, claims := range [][]claim{v.claims, v.strange} {
		for _, c := range claims {
			if c.holder != "" && v.members[c.holder] == nil {
				all = append(all, fmt.Sprintf("lease %s names %.100q, which is no member: it counts for %v", c.lease.Name, c.holder, c.duration))
			}
		}
	}
	if own := v.members[l.id]; l.passed && own != nil && v.behind(own) {
		all = append(all, "a member that came later says that it was first, and knows of another number of shards: nothing is worked until its lease ends")
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = all[:min(len(all), 3)]
	for _, one := range all {
		if !slices.Contains(l.reported, one) {
			l.logger.Warn("lease was not written by a member", zap.String("group", l.group.Name), zap.String("because", one))
		}
	}
	l.reported = all
	return all
}

// reportWait logs that the member waits for others, with their numbers of shards.
func (l *life) reportWait(v *view) {
	if l.passed || l.waited {
		return
	}
	l.waited = true
	var others []string
	for _, p := range v.alive() {
		if p.of != l.group.Shards {
			others = append(others, fmt.Sprintf("%s: %d", p.id, p.of))
		}
	}
	l.logger.Warn("member waits until members with another number of shards have left",
		zap.String("group", l.group.Name), zap.Int("shards", l.group.Shards), zap.Strings("others", others))
}

// State returns the current state of the member.
func (m *Member) State() State { return m.status.Get() }

// Changed returns a channel that is closed when the state differs from seen. It ignores Renewed.
func (m *Member) Changed(seen State) <-chan struct{} { return m.status.Changed(seen) }

// Owned returns the shards whose [RunFunc] runs in this process, in order.
func (m *Member) Owned() []Shard {
	var owned []Shard
	for _, s := range m.State().Shards {
		if s.Held {
			owned = append(owned, s.Shard)
		}
	}
	return owned
}

// Synced returns a channel that is closed when the member has joined its group for the first time,
// even if it waits or gets no shard.
func (m *Member) Synced() <-chan struct{} { return m.synced.Done() }

// WaitForSync waits for [Member.Synced]. If ctx ends before, it returns the error of [Member.Ready]
// and the cause of ctx.
func (m *Member) WaitForSync(ctx context.Context) error { return m.synced.Wait(ctx, m.Ready) }

// Ready returns nil if the member takes part, or waits for earlier members. Otherwise it returns
// the problem, which may be leases that no member wrote, see State.Foreign, or a watch of the leases
// that has been broken for two minutes. A member without shards is ready.
func (m *Member) Ready() error {
	s := m.State()
	switch s.Phase {
	case Sharing, Waiting, Leaving:
	default:
		err := s.Err
		if err == nil {
			err = errNotJoined
		}
		if leases := m.leases.Load(); leases != nil {
			err = errors.Join(err, leases.Ready())
		}
		return fmt.Errorf("member of %s is %s: %w", m.group.Name, s.Phase, err)
	}
	for _, one := range s.Shards {
		if one.Overdue {
			return fmt.Errorf("member of %s: work of shard %s does not end", m.group.Name, one.Shard)
		}
	}
	if len(s.Foreign) > 0 {
		return fmt.Errorf("member of %s: %w: %s", m.group.Name, ErrForeignLease, strings.Join(s.Foreign, "; "))
	}
	if err := m.leases.Load().Ready(); err != nil {
		return fmt.Errorf("member of %s does not see the leases of the others: %w", m.group.Name, err)
	}
	return nil
}

var errNotJoined = errors.New("it has no lease")

// Alive returns an error if a RunFunc is overdue for the duration of a lease, and only a restart of the
// process ends it. Until then no other member gets the shard, or, if this member has lost its lease, two
// members work on it.
func (m *Member) Alive() error {
	now := m.clock.now()
	if since := m.State().overdue; !since.IsZero() && now.Sub(since) >= m.lease {
		return fmt.Errorf("member of %s: work of a shard has not ended for %v after it had to", m.group.Name, now.Sub(since).Round(time.Second))
	}
	return nil
}

// StatusItems returns [Member.State] as names and values for package inspect: the phase, the shards
// that this member works on, the shards that do not end, the shards without a holder, and the
// members.
func (m *Member) StatusItems() [][2]string {
	s := m.State()
	items := [][2]string{{"does", string(s.Phase)}}
	add := func(name, value string) {
		if value != "" {
			items = append(items, [2]string{name, value})
		}
	}
	var held, ending, free []string
	for _, one := range s.Shards {
		index := strconv.Itoa(one.Index)
		if one.Held {
			held = append(held, index)
		}
		if one.Ending {
			ending = append(ending, index)
		}
		if one.Holder == "" {
			free = append(free, index)
		}
	}
	var members []string
	for _, other := range s.Members {
		text := fmt.Sprintf("%s: %d", other.Incarnation, other.Shards)
		if other.Of != len(s.Shards) {
			text += fmt.Sprintf(" of %d", other.Of)
		}
		if other.Leaving {
			text += ", leaving"
		}
		members = append(members, text)
	}
	if len(s.Shards) > 0 {
		add("has", fmt.Sprintf("%d of %d shards", len(held), len(s.Shards)))
	}
	add("shards", strings.Join(held, " "))
	add("told to end", strings.Join(ending, " "))
	add("held by nobody", strings.Join(free, " "))
	add("foreign leases", strings.Join(s.Foreign, "; "))
	add("members", strings.Join(members, "; "))
	if s.Err != nil {
		add("last failure", s.Err.Error())
	}
	return items
}
