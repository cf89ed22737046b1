package sharedwatch

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Member is one reflector's watch that may share a stream with others. The mutex of the Multiplexer
// protects some fields. The goroutine that calls Next owns the others.
type Member struct {
	multiplexer *Multiplexer
	asks        demand
	opts        metav1.ListOptions
	shards      *source.Shards
	began       time.Time
	wake        chan struct{} // signals new data or the end

	own Upstream // the member's own watch; nil once it has joined a stream
	// begun is true once the first objects of a watch-list have come. odd is true if the events
	// have no order. everything is true if the server also sends objects of other shards.
	begun, odd, everything bool
	at                     source.Revision // own has delivered everything up to this version

	// The mutex of the Multiplexer protects these.

	stream *sharedStream   // the member has joined it or is about to
	since  source.Revision // inbox has the events after this version
	// joined is true once the member receives events from the stream. The member already has the
	// events up to floor.
	joined  bool
	floor   source.Revision
	inbox   []Batch
	reports bool          // a batch in the inbox still reports objects of other shards
	delay   time.Duration // how long other members have waited for it since its inbox was last empty
	evicted bool          // the stream removed the member because it was too slow
}

// inboxSize is the largest number of batches in a member's inbox. Each is a buffer of 64 kB, or
// batchEvents events.
const (
	inboxSize   = 8
	batchEvents = 64
)

// begins records the outcome of opening the watch. own is nil if the member joins a stream.
func (m *Member) begins(own Upstream, err error) (*Member, error) {
	m.own, m.began = own, time.Now()
	return m, err
}

// Answer returns the response that errors quote.
func (m *Member) Answer() any {
	if m.own != nil {
		return m.own.Response()
	}
	return m.stream.source.Response()
}

// Next waits for the next batch, as an [Upstream] does.
func (m *Member) Next(ctx context.Context, wake <-chan time.Time) (Batch, error) {
	if m.own == nil {
		return m.take(ctx, wake)
	}
	came, err := m.own.Next(ctx, wake)
	if err != nil {
		return came, err
	}
	m.track(&came)
	if m.begun && m.everything && !m.odd {
		m.approach(ctx)
	}
	return came, nil
}

// track updates the member's progress from a batch of its own watch.
func (m *Member) track(came *Batch) {
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

// approach joins a stream if the member's own watch has delivered all earlier events. It registers
// the member with a stream first, and starts a stream if there is none.
func (m *Member) approach(ctx context.Context) {
	h := m.multiplexer
	h.mu.Lock()
	if m.stream != nil && !m.stream.joinableLocked() {
		h.mu.Unlock()
		h.leave(m)
		h.mu.Lock()
	}
	if m.stream == nil {
		s := h.streamLocked(m.asks)
		if s == nil && !h.aloneLocked(m.asks) {
			s = h.startLocked(ctx, m)
		}
		if s != nil {
			s.registerLocked(m)
		}
	}
	s := m.stream
	caughtUp := s != nil && !s.opened.IsZero() && m.at >= m.since
	if caughtUp {
		s.joinLocked(m)
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

// take waits for the next batch in the inbox.
func (m *Member) take(ctx context.Context, wake <-chan time.Time) (Batch, error) {
	for {
		m.multiplexer.mu.Lock()
		s := m.stream
		if len(m.inbox) > 0 {
			next := m.inbox[0]
			if m.inbox = slices.Delete(m.inbox, 0, 1); len(m.inbox) == 0 {
				m.delay = 0
			}
			m.multiplexer.mu.Unlock()
			signal(s.room)
			return next, nil
		}
		evicted, ended, err := m.evicted, s.ended, s.err
		m.multiplexer.mu.Unlock()
		switch {
		case evicted:
			return Batch{}, io.EOF
		case ended:
			return Batch{}, m.last(ctx, err)
		}
		select {
		case <-m.wake:
		case <-wake:
			return Batch{}, stream.ErrAwake
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

// last returns the error that ended the stream. A reflector treats a watch that ends soon after its
// start as a failure. So last delays the end of an old stream for a member that joined a moment
// ago.
func (m *Member) last(ctx context.Context, err error) error {
	rest := protocol.ShortWatchTime - time.Since(m.began)
	if rest <= 0 || time.Since(m.stream.opened) < protocol.ShortWatchTime {
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
	tail := m.tailLocked(false)
	if tail.OutOfShard > 0 && !m.reports {
		m.reports, tail = true, m.tailLocked(true) // keep one batch that reports objects of other shards
	}
	if came.Frames != nil {
		frame := &came.Frames.Frames[i]
		if tail.Frames != nil && !tail.Frames.Append(frame) {
			tail = m.tailLocked(true)
		}
		if tail.Frames == nil {
			tail.Frames = wire.NewBatch()
			tail.Frames.Format = came.Frames.Format
			tail.Frames.Append(frame)
		}
	} else {
		if len(tail.Events) >= batchEvents {
			tail = m.tailLocked(true)
		}
		e := came.Events[i]
		if taken {
			e = copyOf(e)
		}
		tail.Events = append(tail.Events, e)
	}
	tail.OutOfShard = 0
}

// passLocked records a change of an object of another shard. A later event for the member usually
// clears the count in putLocked, because that event has a newer version.
func (m *Member) passLocked(version source.Revision) {
	tail := m.tailLocked(false)
	tail.OutOfShard++
	tail.Version = version
}

// tailLocked returns the last batch in the inbox. It appends a batch first if the inbox is empty, or
// if fresh is true.
func (m *Member) tailLocked(fresh bool) *Batch {
	if fresh || len(m.inbox) == 0 {
		m.inbox = append(m.inbox, Batch{})
	}
	return &m.inbox[len(m.inbox)-1]
}

// Close ends the member's own watch. It also ends the stream if this was the stream's last member.
func (m *Member) Close() {
	if m.own != nil {
		m.own.Close()
	}
	m.multiplexer.leave(m)
}
