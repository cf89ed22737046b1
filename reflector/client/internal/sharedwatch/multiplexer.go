package sharedwatch

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Multiplexer manages the watches that reflectors of several shards share: one watch, called a
// stream, for all members with the same request.
//
// A member is the watch of one reflector. If it needs no events before the stream's position, it
// joins the stream at once. Otherwise it begins with a watch of its own. It then registers with the
// stream, which buffers for it all events after the stream's current position. When its own watch
// has delivered everything up to that position, the member closes that watch and continues with the
// buffered events.
type Multiplexer struct {
	open func(context.Context, metav1.ListOptions) (Upstream, error)

	mu      sync.Mutex // protects the fields below, and the fields that streams and members list
	streams map[demand]*sharedStream
	// gatherings are the members that wait for shared watch-lists.
	gatherings map[listKey]*gathering
	// alone records until when members do not share a request, because its events had no order, or
	// because the shared watch could not be opened.
	alone map[demand]time.Time
}

// demand is the part of a request that all members of a stream have in common.
type demand struct {
	labels, fields string
	by             store.ShardKey
}

// These are the times for which members do not share a request after sharing failed.
const (
	orderless   = protocol.MaxWatch
	unavailable = 30 * time.Second
)

func NewMultiplexer(open func(context.Context, metav1.ListOptions) (Upstream, error)) *Multiplexer {
	return &Multiplexer{open: open, streams: map[demand]*sharedStream{}, gatherings: map[listKey]*gathering{}, alone: map[demand]time.Time{}}
}

// Enter opens a watch for a reflector, and returns when the server has accepted it. The member
// receives events until ctx or the watch ends. The caller must close it.
func (h *Multiplexer) Enter(ctx context.Context, opts metav1.ListOptions, shards *source.Shards, sharding source.Sharding) (*Member, error) {
	m := &Member{
		multiplexer: h, opts: opts, shards: shards, wake: make(chan struct{}, 1),
		asks: demand{opts.LabelSelector, opts.FieldSelector, shards.By},
	}
	if initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents; initial {
		return m.begins(h.gather(ctx, m))
	}
	from, numbered := source.RevisionOf(opts.ResourceVersion)
	m.begun, m.odd, m.at = true, !numbered, from
	if numbered && sharding == source.ShardedByClient {
		m.everything = true
		m.opts.ShardSelector = "" // another API server may still support the selector
		if done, err := h.enterShared(ctx, m); done {
			return m.begins(nil, err)
		}
	}
	return m.begins(h.open(ctx, m.opts))
}

// enterShared joins a member to the shared watch, and starts that watch if there is none. It
// returns false if the shared watch begins later than the member needs. It also returns false if
// the server refused a shared watch that another member started. The member then opens a watch of
// its own at once: if the members retried the shared watch one after another, the last one would
// learn late that the server does not answer.
func (h *Multiplexer) enterShared(ctx context.Context, m *Member) (bool, error) {
	h.mu.Lock()
	s := h.streamLocked(m.asks)
	began := s == nil && !h.aloneLocked(m.asks)
	if began {
		s = h.startLocked(ctx, m)
	}
	if s == nil || m.at < s.position {
		h.mu.Unlock()
		return false, nil
	}
	s.registerLocked(m)
	s.joinLocked(m)
	h.mu.Unlock()
	select {
	case <-s.answered:
	case <-ctx.Done():
		h.leave(m)
		return true, ctx.Err()
	}
	if s.refusal == nil {
		return true, nil
	}
	h.leave(m)
	if !began {
		return false, nil
	}
	return true, s.refusal
}

// streamLocked returns the stream for a request if a member can still join it, and nil otherwise.
func (h *Multiplexer) streamLocked(asks demand) *sharedStream {
	if s := h.streams[asks]; s != nil && s.joinableLocked() {
		return s
	}
	return nil
}

func (h *Multiplexer) aloneLocked(asks demand) bool { return time.Now().Before(h.alone[asks]) }

// separateLocked stops the sharing of a request for some time. It also deletes expired entries,
// since programs may use many different selectors.
func (h *Multiplexer) separateLocked(asks demand, lasting time.Duration) {
	now := time.Now()
	maps.DeleteFunc(h.alone, func(_ demand, until time.Time) bool { return !now.Before(until) })
	h.alone[asks] = now.Add(lasting)
}

// startLocked begins a stream at the position of a member. The stream has no members yet.
func (h *Multiplexer) startLocked(ctx context.Context, m *Member) *sharedStream {
	s := h.newStream(ctx, m)
	s.position = m.at
	s.opts.ResourceVersion, s.opts.ResourceVersionMatch = m.at.String(), ""
	s.opts.ShardSelector, s.opts.SendInitialEvents = "", nil
	h.streams[m.asks] = s
	s.beginLocked()
	return s
}

// newStream returns a stream with the request of a member. The stream outlives that member.
func (h *Multiplexer) newStream(ctx context.Context, m *Member) *sharedStream {
	life := protocol.MaxWatch
	if seconds := m.opts.TimeoutSeconds; seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	s := &sharedStream{
		multiplexer: h, asks: m.asks, opts: m.opts, until: time.Now().Add(life),
		answered: make(chan struct{}), done: make(chan struct{}), room: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// forgetLocked removes a stream, so that no member can join it any more.
func (h *Multiplexer) forgetLocked(s *sharedStream) {
	if h.streams[s.asks] == s {
		delete(h.streams, s.asks)
	}
}

// leave removes a member from its stream. If it was the last member, leave ends the stream, and
// waits for its end.
func (h *Multiplexer) leave(m *Member) {
	h.mu.Lock()
	s := m.stream
	last := s != nil && s.dropLocked(m)
	m.stream, m.joined, m.inbox = nil, false, nil
	h.mu.Unlock()
	if last {
		<-s.done
	}
}
