package sharedwatch

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// trunk is a watch of all objects that several members share. One goroutine reads the watch and
// gives each member the events of its shards.
type trunk struct {
	hub      *Multiplexer
	asks     demand
	opts     metav1.ListOptions
	until    time.Time       // no member joins after this time: the watch may have stalled
	ctx      context.Context // of the watch, which outlives the member that began it
	cancel   context.CancelFunc
	answered chan struct{} // closed when the server has answered
	done     chan struct{} // closed when the goroutine has ended
	room     chan struct{} // signals that a member emptied its inbox, joined or left

	// The following fields are set when answered is closed.

	refusal error // nil if the watch is open
	source  Upstream
	opened  time.Time

	// The hub's mu protects these.

	begun    bool
	members  []*Member
	position source.Revision // the trunk delivers newer events to all members
	heard    time.Time       // the time of the last data
	ended    bool
	err      error // the error that ended the trunk

	// Only the goroutine that reads uses the following fields.

	notices []notice
	slow    []*Member // members with full inboxes that others wait for

	// The following fields belong to a shared watch-list: the request and the shards of its
	// members. See gathering.

	roll    *roll
	union   *source.Shards
	listed  bool      // the initial events are complete
	ignored bool      // the server sent objects outside union, so it does not filter
	stirred time.Time // the time of the last stirLocked for all members
	stirs   bool      // the current place calls stirLocked
}

// memberPatience is how long other members wait in total for one member, until it has emptied its
// inbox.
const memberPatience = 5 * time.Second

func (t *trunk) beginLocked() {
	t.begun = true
	go t.run(t.opts)
}

func (t *trunk) run(opts metav1.ListOptions) {
	defer close(t.done)
	defer t.cancel()
	if t.ask(opts) != nil {
		return
	}
	defer t.source.Close()
	err := io.EOF // remains if client code calls runtime.Goexit
	defer func() {
		t.hub.mu.Lock()
		defer t.hub.mu.Unlock()
		t.endLocked(err)
	}()
	err = t.read(t.ctx)
}

// ask opens the watch, and passes the outcome to the waiting members.
func (t *trunk) ask(opts metav1.ListOptions) error {
	var opened Upstream
	err := source.ErrNoWatch // remains if client code calls runtime.Goexit
	defer func() {
		t.answer(opened, err)
		if t.roll != nil {
			t.hub.gathered(*t.roll)
		}
	}()
	opened, err = t.hub.open(t.ctx, opts)
	return err
}

func (t *trunk) answer(source Upstream, err error) {
	defer close(t.answered)
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	now := time.Now()
	t.source, t.refusal, t.opened, t.heard = source, err, now, now
	if err == nil {
		return
	}
	if len(t.members) > 0 && !slices.ContainsFunc(t.members, func(m *Member) bool { return m.joined }) {
		t.hub.separateLocked(t.asks, unavailable) // all members have watches of their own
	}
	t.endLocked(err)
}

// read delivers data until the watch ends, and returns the reason.
func (t *trunk) read(ctx context.Context) error {
	for {
		came, err := t.source.Next(ctx)
		if err != nil {
			return err
		}
		more, err := t.deliver(ctx, &came)
		if came.Frames != nil {
			came.Frames.Release()
		}
		if err != nil || !more {
			return err
		}
	}
}

// deliver gives a haul to the members. It returns false if the trunk cannot go on.
func (t *trunk) deliver(ctx context.Context, came *Batch) (bool, error) {
	t.notices = t.notices[:0]
	for i := range came.Size() {
		t.notices = append(t.notices, came.notice(i, t.asks.by))
	}
	for {
		full, more := t.place(came)
		if !full && !more {
			return false, io.EOF
		}
		if !full {
			return true, nil
		}
		began := time.Now()
		timer := time.NewTimer(t.patience())
		select {
		case <-t.room:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		timer.Stop()
		t.castOff(time.Since(began))
	}
}

// place adds a haul to the inboxes of all members. If a joined member's inbox is full, it adds
// nothing and returns true for full. It returns false for more if the events have no order, so that
// no member could join.
func (t *trunk) place(came *Batch) (full, more bool) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for _, m := range t.members {
		switch {
		case len(m.inbox) < inboxSize:
		case m.joined:
			return true, true
		default: // its own watch must now catch up to this position
			m.inbox, m.since = nil, t.position
		}
	}
	defer t.wakeLocked()
	t.heard = time.Now()
	if t.stirs = t.heard.Sub(t.stirred) >= stirEvery; t.stirs {
		t.stirred = t.heard
	}
	for i, n := range t.notices {
		if !t.placeLocked(came, i, n) {
			t.hub.forgetLocked(t)
			return false, false
		}
	}
	return false, true
}

// placeLocked delivers one event to the members. It returns false if the order of later events is
// unknown.
func (t *trunk) placeLocked(came *Batch, i int, n notice) bool {
	switch {
	case t.union != nil:
		return t.placeListedLocked(came, i, n)
	case n.kind == changing && n.version >= t.position:
		taken := false
		for _, m := range t.members {
			switch {
			case n.version <= m.floor:
			case m.shards.Contains(n.hash):
				m.putLocked(came, i, taken)
				taken = true
			default:
				m.passLocked(n.version)
			}
		}
		t.position = n.version
		return true
	case n.kind == marking && n.version >= t.position:
		for _, m := range t.members {
			if n.version >= m.floor {
				m.putLocked(came, i, false)
			}
		}
		t.position = n.version
		return true
	}
	// This is a failure, an unreadable event, or a server that went back. Each member handles it.
	for _, m := range t.members {
		if m.joined {
			m.putLocked(came, i, true)
		}
	}
	if n.kind == strange || n.kind == changing {
		t.hub.separateLocked(t.asks, orderless)
	}
	return false
}

// patience collects the members that others wait for, and returns the remaining time to wait.
func (t *trunk) patience() time.Duration {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.slow = t.slow[:0]
	least, others := memberPatience, false
	for _, m := range t.members {
		switch {
		case !m.joined:
		case len(m.inbox) < inboxSize:
			others = true
		default:
			t.slow = append(t.slow, m)
			least = min(least, memberPatience-m.delay)
		}
	}
	if !others {
		clear(t.slow) // no member waits for them
		t.slow = t.slow[:0]
		return memberPatience
	}
	return least
}

// castOff removes members that the others have waited for long enough.
func (t *trunk) castOff(waited time.Duration) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for _, m := range t.slow {
		if m.trunk != t || !m.joined {
			continue // it has left
		}
		if m.delay += waited; m.delay >= memberPatience {
			m.cast = true
			t.removeLocked(m)
		}
	}
	clear(t.slow)
}

// joinableLocked reports whether a member may still join. A silent trunk may have stalled, because
// bookmarks come every minute.
func (t *trunk) joinableLocked() bool {
	now := time.Now()
	return !t.ended && now.Before(t.until) && (t.opened.IsZero() || now.Sub(t.heard) < protocol.Silence)
}

func (t *trunk) registerLocked(m *Member) {
	m.trunk, m.since, m.floor, m.joined, m.inbox = t, t.position, 0, false, nil
	t.members = append(t.members, m)
}

// joinLocked makes a registered member receive events from its current position. If its inbox is
// full, it delays the trunk from now on. Before, the trunk may have had no member that waits.
func (t *trunk) joinLocked(m *Member) {
	m.joined, m.floor = true, m.at
	t.makeRoom()
}

// dropLocked removes a member. It cancels the trunk and returns true if no member is left.
func (t *trunk) dropLocked(m *Member) bool {
	t.removeLocked(m)
	if len(t.members) > 0 || !t.begun {
		return false
	}
	t.hub.forgetLocked(t)
	t.cancel()
	return true
}

func (t *trunk) removeLocked(m *Member) {
	t.members = slices.DeleteFunc(t.members, func(other *Member) bool { return other == m })
	t.makeRoom()
}

// makeRoom wakes the goroutine that reads.
func (t *trunk) makeRoom() {
	select {
	case t.room <- struct{}{}:
	default:
	}
}

func (t *trunk) endLocked(err error) {
	t.ended, t.err = true, err
	t.hub.forgetLocked(t)
	t.wakeLocked()
}

func (t *trunk) wakeLocked() {
	for _, m := range t.members {
		if m.joined {
			m.wakeUp()
		}
	}
}

// copyOf returns an event with a copy of the object for another member. Each member may change its
// object.
func copyOf(e watch.Event) watch.Event {
	if !source.IsNil(e.Object) {
		e.Object = e.Object.DeepCopyObject()
	}
	return e
}
