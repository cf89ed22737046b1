package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
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

	change int // counts all changes except Renewed
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
	// end, and Overdue that it did not do so in time.
	Held, Ending, Overdue bool
}

// status is the State of a member, shared with its readers.
type status struct {
	// mu protects state, changed and overdue.
	mu      sync.Mutex
	state   State
	changed chan struct{} // closed by the next change; nil if no caller waits
	overdue time.Time     // the time since which a RunFunc is overdue; zero if none is

	synced chan struct{}
	once   sync.Once
}

func newStatus() *status {
	return &status{state: State{Phase: Stopped}, synced: make(chan struct{})}
}

func (s *status) set(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state
	change(&s.state)
	if s.state.Phase == old.Phase && s.state.Incarnation == old.Incarnation && reflect.DeepEqual(s.state.Err, old.Err) &&
		slices.Equal(s.state.Members, old.Members) && slices.Equal(s.state.Shards, old.Shards) && slices.Equal(s.state.Foreign, old.Foreign) {
		return
	}
	s.state.change++
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *status) begin(incarnation string) {
	s.set(func(s *State) { s.Incarnation, s.Phase, s.Err = incarnation, Joining, nil })
}

func (s *status) stop() {
	s.set(func(state *State) { *state = State{Phase: Stopped, Err: state.Err, change: state.change} })
}

func (s *status) note(err error) {
	s.set(func(s *State) { s.Err = err })
}

func (s *status) renewed(at time.Time) {
	s.set(func(s *State) { s.Renewed, s.Err = at, nil })
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
			Held: t.running, Ending: t.running && (t.told || lost), Overdue: t.running && t.overdue,
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
	l.status.set(func(s *State) {
		s.Phase, s.Members, s.Shards, s.Foreign = phase, members, shards, l.foreign(v)
	})
	l.status.late(overdue, l.clock.now())
	if phase != Joining {
		l.status.once.Do(func() { close(l.status.synced) })
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

// late records whether a RunFunc is overdue.
func (s *status) late(overdue bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !overdue:
		s.overdue = time.Time{}
	case s.overdue.IsZero():
		s.overdue = now
	}
}

// State returns the current state of the member.
func (m *Member) State() State {
	m.status.mu.Lock()
	defer m.status.mu.Unlock()
	return m.status.state
}

// Changed returns a channel that is closed when the state differs from seen. It ignores Renewed.
func (m *Member) Changed(seen State) <-chan struct{} {
	s := m.status
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.change != seen.change {
		c := make(chan struct{})
		close(c)
		return c
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Owned returns the shards whose Holds run in this process, in order.
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
func (m *Member) Synced() <-chan struct{} { return m.status.synced }

// WaitForSync waits for [Member.Synced]. If ctx ends before, it returns the error of [Member.Ready]
// and the cause of ctx.
func (m *Member) WaitForSync(ctx context.Context) error {
	select {
	case <-m.status.synced:
		return nil
	default:
	}
	select {
	case <-m.status.synced:
		return nil
	case <-ctx.Done():
		return errors.Join(m.Ready(), context.Cause(ctx))
	}
}

// Ready returns nil if the member takes part, or waits for earlier members. Otherwise it returns
// the problem, which may be leases that no member wrote: see State.Foreign. A member without shards
// is ready.
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
	return nil
}

var errNotJoined = errors.New("it has no lease")

// Alive returns an error if a RunFunc that had to end at once has not returned for the duration of a
// lease: no other member gets the shard before this process ends.
func (m *Member) Alive() error {
	now := m.clock.now()
	m.status.mu.Lock()
	defer m.status.mu.Unlock()
	if since := m.status.overdue; !since.IsZero() && now.Sub(since) >= m.lease {
		return fmt.Errorf("member of %s: work of a shard has not ended for %v after it had to", m.group.Name, now.Sub(since).Round(time.Second))
	}
	return nil
}
