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

// sharedStream is a watch of all objects that several members share. One goroutine reads the watch
// and gives each member the events of its shards.
type sharedStream struct {
	multiplexer *Multiplexer
	asks        demand
	opts        metav1.ListOptions
	until       time.Time       // no member joins after this time: the watch may have stalled
	ctx         context.Context // of the watch, which outlives the member that began it
	cancel      context.CancelFunc
	answered    chan struct{} // closed when the server has answered
	done        chan struct{} // closed when the goroutine has ended
	room        chan struct{} // signals that a member emptied its inbox, joined or left

	// The following fields are set when answered is closed.

	refusal error // nil if the watch is open
	source  Upstream
	opened  time.Time

	// The mutex of the Multiplexer protects these.

	begun    bool
	members  []*Member
	position source.Revision // the stream delivers newer events to all members
	heard    time.Time       // the time of the last data
	ended    bool
	err      error // the error that ended the stream

	// Only the goroutine that reads uses the following fields.

	notices []notice
	slow    []*Member // members with full inboxes that others wait for

	// The following fields belong to a shared watch-list: the request and the shards of its
	// members. See gathering.

	key      *listKey
	union    *source.Shards
	listed   bool      // the initial events are complete
	ignored  bool      // the server sent objects outside union, so it does not filter
	lastBeat time.Time // the time of the last heartbeat for all members
	beats    bool      // the current place is a heartbeat
}

// memberPatience is how long other members wait in total for one member, until it has emptied its
// inbox.
const memberPatience = 5 * time.Second

func (s *sharedStream) beginLocked() {
	s.begun = true
	go s.run(s.opts)
}

func (s *sharedStream) run(opts metav1.ListOptions) {
	defer close(s.done)
	defer s.cancel()
	if s.ask(opts) != nil {
		return
	}
	defer s.source.Close()
	err := io.EOF // remains if client code calls runtime.Goexit
	defer func() {
		s.multiplexer.mu.Lock()
		defer s.multiplexer.mu.Unlock()
		s.endLocked(err)
	}()
	err = s.read(s.ctx)
}

// ask opens the watch, and passes the outcome to the waiting members.
func (s *sharedStream) ask(opts metav1.ListOptions) error {
	var opened Upstream
	err := source.ErrNoWatch // remains if client code calls runtime.Goexit
	defer func() {
		s.answer(opened, err)
		if s.key != nil {
			s.multiplexer.gathered(*s.key, nil)
		}
	}()
	opened, err = s.multiplexer.open(s.ctx, opts)
	return err
}

func (s *sharedStream) answer(source Upstream, err error) {
	defer close(s.answered)
	s.multiplexer.mu.Lock()
	defer s.multiplexer.mu.Unlock()
	now := time.Now()
	s.source, s.refusal, s.opened, s.heard = source, err, now, now
	if err == nil {
		return
	}
	if len(s.members) > 0 && !slices.ContainsFunc(s.members, func(m *Member) bool { return m.joined }) {
		s.multiplexer.separateLocked(s.asks, unavailable) // all members have watches of their own
	}
	s.endLocked(err)
}

// read delivers data until the watch ends, and returns the reason.
func (s *sharedStream) read(ctx context.Context) error {
	for {
		came, err := s.source.Next(ctx, nil)
		if err != nil {
			return err
		}
		more, err := s.deliver(ctx, &came)
		if came.Frames != nil {
			came.Frames.Release()
		}
		if err != nil || !more {
			return err
		}
	}
}

// deliver gives a batch to the members. It returns false if the stream cannot go on.
func (s *sharedStream) deliver(ctx context.Context, came *Batch) (bool, error) {
	s.notices = s.notices[:0]
	for i := range came.Size() {
		s.notices = append(s.notices, came.notice(i, s.asks.by))
	}
	for {
		wait, more := s.place(came)
		switch {
		case !more:
			return false, io.EOF
		case wait == 0:
			return true, nil
		}
		began := time.Now()
		timer := time.NewTimer(wait)
		select {
		case <-s.room:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		timer.Stop()
		s.evict(time.Since(began))
	}
}

// place adds a batch to the inboxes of all members. If the inboxes of joined members are full, it adds
// nothing and returns how long to wait for these members. It returns false for more if the events have
// no order, so that no member could join.
func (s *sharedStream) place(came *Batch) (wait time.Duration, more bool) {
	s.multiplexer.mu.Lock()
	defer s.multiplexer.mu.Unlock()
	clear(s.slow)
	s.slow = s.slow[:0]
	full, others, least := false, false, memberPatience
	for _, m := range s.members {
		switch {
		case len(m.inbox) < inboxSize:
			others = others || m.joined
		case m.joined:
			full = true
			s.slow = append(s.slow, m)
			least = min(least, memberPatience-m.delay)
		default: // its own watch must now catch up to this position
			m.inbox, m.since = nil, s.position
		}
	}
	if full && others {
		return least, true
	}
	s.slow = s.slow[:0] // no member waits for them
	if full {
		return memberPatience, true
	}
	defer s.wakeLocked()
	s.heard = time.Now()
	if s.beats = s.heard.Sub(s.lastBeat) >= heartbeatEvery; s.beats {
		s.lastBeat = s.heard
	}
	for i, n := range s.notices {
		if !s.placeLocked(came, i, n) {
			s.multiplexer.forgetLocked(s)
			return 0, false
		}
	}
	return 0, true
}

// placeLocked delivers one event to the members. It returns false if the order of later events is
// unknown.
func (s *sharedStream) placeLocked(came *Batch, i int, n notice) bool {
	switch {
	case s.union != nil:
		return s.placeListedLocked(came, i, n)
	case n.kind == changing && n.version >= s.position:
		taken := false
		for _, m := range s.members {
			switch {
			case n.version <= m.floor:
			case m.shards.Contains(n.hash):
				m.putLocked(came, i, taken)
				taken = true
			default:
				m.passLocked(n.version)
			}
		}
		s.position = n.version
		return true
	case n.kind == marking && n.version >= s.position:
		for _, m := range s.members {
			if n.version >= m.floor {
				m.putLocked(came, i, false)
			}
		}
		s.position = n.version
		return true
	}
	// This is a failure, an unreadable event, or a server that went back. Each member handles it.
	for _, m := range s.members {
		if m.joined {
			m.putLocked(came, i, true)
		}
	}
	if n.kind == strange || n.kind == changing {
		s.multiplexer.separateLocked(s.asks, orderless)
	}
	return false
}

// evict removes members that the others have waited for long enough.
func (s *sharedStream) evict(waited time.Duration) {
	s.multiplexer.mu.Lock()
	defer s.multiplexer.mu.Unlock()
	for _, m := range s.slow {
		if m.stream != s || !m.joined {
			continue // it has left
		}
		if m.delay += waited; m.delay >= memberPatience {
			m.evicted = true
			s.removeLocked(m)
		}
	}
}

// joinableLocked reports whether a member may still join. A silent stream may have stalled, because
// bookmarks come every minute.
func (s *sharedStream) joinableLocked() bool {
	now := time.Now()
	return !s.ended && now.Before(s.until) && (s.opened.IsZero() || now.Sub(s.heard) < protocol.Silence)
}

func (s *sharedStream) registerLocked(m *Member) {
	m.stream, m.since, m.floor, m.joined, m.inbox = s, s.position, 0, false, nil
	s.members = append(s.members, m)
}

// joinLocked makes a registered member receive events from its current position. If its inbox is
// full, it delays the stream from now on. Before, the stream may have had no member that waits.
func (s *sharedStream) joinLocked(m *Member) {
	m.joined, m.floor = true, m.at
	signal(s.room)
}

// dropLocked removes a member. It cancels the stream and returns true if no member is left.
func (s *sharedStream) dropLocked(m *Member) bool {
	s.removeLocked(m)
	if len(s.members) > 0 || !s.begun {
		return false
	}
	s.multiplexer.forgetLocked(s)
	s.cancel()
	return true
}

func (s *sharedStream) removeLocked(m *Member) {
	s.members = slices.DeleteFunc(s.members, func(other *Member) bool { return other == m })
	signal(s.room)
}

// signal wakes the goroutine that receives from a channel of capacity 1.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *sharedStream) endLocked(err error) {
	s.ended, s.err = true, err
	s.multiplexer.forgetLocked(s)
	s.wakeLocked()
}

func (s *sharedStream) wakeLocked() {
	for _, m := range s.members {
		if m.joined {
			signal(m.wake)
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
