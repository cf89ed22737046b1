package sharedwatch

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Member is one reflector's watch that may share a trunk with others. The hub's mu protects some
// fields. The goroutine that calls next owns the others.
type Member struct {
	hub    *Multiplexer
	asks   demand
	opts   metav1.ListOptions
	shards *source.Shards
	began  time.Time
	wake   chan struct{} // signals new data or the end

	own Upstream // the member's own watch; nil once it has joined a trunk
	// begun is true once the first objects of a watch-list have come. odd is true if the events
	// have no order. everything is true if the server also sends objects of other shards.
	begun, odd, everything bool
	at                     source.Revision // own has delivered everything up to this version

	// The hub's mu protects these.

	trunk *trunk          // the member has joined it or is about to
	since source.Revision // inbox has the events after this version
	// joined is true once the member receives events from the trunk. The member already has the
	// events up to floor.
	joined bool
	floor  source.Revision
	inbox  []Batch
	told   bool          // a haul in the inbox still reports objects of other shards
	delay  time.Duration // how long other members have waited for it since its inbox was last empty
	cast   bool          // the trunk removed the member because it was too slow
}

// inboxSize is the largest number of hauls in a member's inbox. Each is a buffer of 64 kB, or
// haulEvents events.
const (
	inboxSize  = 8
	haulEvents = 64
)

// begins records the outcome of opening the watch. own is nil if the member joins a trunk.
func (m *Member) begins(own Upstream, err error) (*Member, error) {
	m.own, m.began = own, time.Now()
	return m, err
}

// Answer returns the response that errors quote.
func (m *Member) Answer() any {
	if m.own != nil {
		return m.own.Response()
	}
	return m.trunk.source.Response()
}

// Next waits for the next haul. It returns io.EOF at the end.
func (m *Member) Next(ctx context.Context) (Batch, error) {
	if m.own == nil {
		return m.take(ctx)
	}
	came, err := m.own.Next(ctx)
	if err != nil {
		return came, err
	}
	m.heed(&came)
	if m.begun && m.everything && !m.odd {
		m.approach(ctx)
	}
	return came, nil
}

// heed updates the member's progress from a haul of its own watch.
func (m *Member) heed(came *Batch) {
	for i := range came.Size() {
		n := came.notice(i, m.asks.by)
		if n.kind == changing && !m.shards.Contains(n.hash) {
			m.everything = true
		}
		switch {
		case !m.begun && (n.kind == changing || n.kind == marking):
			if n.closing {
				m.begun, m.at = true, n.version
			}
		case n.kind != changing && n.kind != marking || n.version < m.at:
			m.odd = true
		default:
			m.at = n.version
		}
	}
	if came.OutOfShard > 0 {
		m.everything = true
		m.at = max(m.at, came.Version)
	}
}

// approach joins a trunk if the member's own watch has delivered all earlier events. It registers
// the member with a trunk first, and starts a trunk if there is none.
func (m *Member) approach(ctx context.Context) {
	h := m.hub
	h.mu.Lock()
	if m.trunk != nil && !m.trunk.joinableLocked() {
		h.mu.Unlock()
		h.leave(m)
		h.mu.Lock()
	}
	if m.trunk == nil {
		t := h.trunkLocked(m.asks)
		if t == nil && !h.aloneLocked(m.asks) {
			t = h.startLocked(ctx, m)
		}
		if t != nil {
			t.registerLocked(m)
		}
	}
	t := m.trunk
	caughtUp := t != nil && !t.opened.IsZero() && m.at >= m.since
	if caughtUp {
		t.joinLocked(m)
		m.skipLocked()
	}
	h.mu.Unlock()
	if caughtUp {
		own := m.own
		m.own = nil
		own.Close()
	}
}

// skipLocked removes events from the inbox that the member already has.
func (m *Member) skipLocked() {
	for i := range m.inbox {
		h := &m.inbox[i]
		known := 0
		for known < h.Size() && h.notice(known, m.asks.by).version <= m.floor {
			known++
		}
		if h.Frames != nil {
			h.Frames.Frames = slices.Delete(h.Frames.Frames, 0, known)
		}
		h.Events = slices.Delete(h.Events, 0, min(known, len(h.Events)))
		if h.Version <= m.floor {
			h.OutOfShard = 0
		}
	}
}

// take waits for the next haul in the inbox.
func (m *Member) take(ctx context.Context) (Batch, error) {
	for {
		m.hub.mu.Lock()
		t := m.trunk
		if len(m.inbox) > 0 {
			next := m.inbox[0]
			if m.inbox = slices.Delete(m.inbox, 0, 1); len(m.inbox) == 0 {
				m.delay = 0
			}
			m.hub.mu.Unlock()
			t.makeRoom()
			return next, nil
		}
		cast, ended, err := m.cast, t.ended, t.err
		m.hub.mu.Unlock()
		switch {
		case cast:
			return Batch{}, io.EOF
		case ended:
			return Batch{}, m.last(ctx, err)
		}
		select {
		case <-m.wake:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

// last returns the error that ended the trunk. A reflector treats a watch that ends soon after its
// start as a failure. So last delays the end of an old trunk for a member that joined a moment ago.
func (m *Member) last(ctx context.Context, err error) error {
	rest := protocol.ShortWatchTime - time.Since(m.began)
	if rest <= 0 || time.Since(m.trunk.opened) < protocol.ShortWatchTime {
		return err
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return err
}

// putLocked adds an event to the inbox. If taken is true, another member has the event, and
// putLocked adds a copy.
func (m *Member) putLocked(came *Batch, i int, taken bool) {
	tail := m.tailLocked()
	if tail != nil && tail.OutOfShard > 0 && !m.told {
		m.told, tail = true, nil // keep one haul that reports objects of other shards
	}
	if came.Frames != nil {
		frame := &came.Frames.Frames[i]
		if tail == nil || tail.Frames != nil && !tail.Frames.Append(frame) {
			m.inbox = append(m.inbox, Batch{})
			tail = m.tailLocked()
		} else if tail.Frames != nil {
			tail.OutOfShard = 0
			return
		}
		tail.Frames, tail.OutOfShard = wire.NewBatch(), 0
		tail.Frames.Format = came.Frames.Format
		tail.Frames.Append(frame)
		return
	}
	if tail == nil || len(tail.Events) >= haulEvents {
		m.inbox = append(m.inbox, Batch{})
		tail = m.tailLocked()
	}
	e := came.Events[i]
	if taken {
		e = copyOf(e)
	}
	tail.Events, tail.OutOfShard = append(tail.Events, e), 0
}

// passLocked records a change of an object of another shard. A later event for the member usually
// clears the count in putLocked, because that event has a newer version.
func (m *Member) passLocked(version source.Revision) {
	if m.tailLocked() == nil {
		m.inbox = append(m.inbox, Batch{})
	}
	tail := m.tailLocked()
	tail.OutOfShard++
	tail.Version = version
}

// stirLocked records the addition of an object of another shard, without its version.
func (m *Member) stirLocked() {
	if m.tailLocked() == nil {
		m.inbox = append(m.inbox, Batch{})
	}
	m.tailLocked().Added = true
}

// tailLocked returns the last haul in the inbox; nil if the inbox is empty.
func (m *Member) tailLocked() *Batch {
	if len(m.inbox) == 0 {
		return nil
	}
	return &m.inbox[len(m.inbox)-1]
}

func (m *Member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Close ends the member's own watch. It also ends the trunk if this was the trunk's last member.
func (m *Member) Close() {
	if m.own != nil {
		m.own.Close()
	}
	m.hub.leave(m)
}
