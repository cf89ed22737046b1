package sharedwatch

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listKey is the request that all members of a shared watch-list have in common.
type listKey struct {
	demand
	version string
	match   metav1.ResourceVersionMatch
	selects bool // the request has a shard selector
}

// gathering collects members that wait while another member requests a watch-list. They share the
// next watch-list, which requests the shards of each of them. So the server sends every object
// once, whether the server or the client selects the shards, and each member learns which side
// selects. If the client selects, each member joins a shared watch when it has caught up. If the
// server selects, the members keep this watch.
type gathering struct {
	next *sharedStream // not begun yet; nil if no member waits
}

const (
	// gatherPatience is how long the next watch-list waits for the server's answer to the previous
	// one.
	gatherPatience = time.Second
	// gatherMost is the maximum number of shards in the selector of several members. The selector
	// is part of a URL.
	gatherMost = 32
	// heartbeatEvery is the interval at which members without objects of their own receive a sign
	// that the watch-list continues.
	heartbeatEvery = time.Second
)

// gather opens a watch-list for a member, either its own or a shared one.
func (h *Multiplexer) gather(ctx context.Context, m *Member) (Upstream, error) {
	if len(m.shards.All) > gatherMost {
		return h.open(ctx, m.opts)
	}
	key := listKey{m.asks, m.opts.ResourceVersion, m.opts.ResourceVersionMatch, m.opts.ShardSelector != ""}
	h.mu.Lock()
	g := h.gatherings[key]
	if g == nil {
		h.gatherings[key] = &gathering{}
		h.mu.Unlock()
		defer h.gathered(key, nil)
		return h.open(ctx, m.opts)
	}
	if g.next != nil && len(g.next.wanted())+len(m.shards.All) > gatherMost {
		g.beginLocked()
	}
	if g.next == nil {
		g.next = h.newStream(ctx, m)
		g.next.key = &key
	}
	s := g.next
	part := &Member{multiplexer: h, asks: m.asks, shards: m.shards, wake: make(chan struct{}, 1)}
	s.registerLocked(part)
	part.joined = true
	h.mu.Unlock()
	if err := h.await(ctx, s); err != nil {
		h.leave(part)
		return nil, err
	}
	return forward{part}, nil
}

// await waits for the server's answer. If the previous request takes longer than gatherPatience,
// await begins this one.
func (h *Multiplexer) await(ctx context.Context, s *sharedStream) error {
	patience := time.NewTimer(gatherPatience)
	defer patience.Stop()
	for {
		select {
		case <-s.answered:
			return s.refusal
		case <-patience.C:
			h.gathered(*s.key, s)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gathered begins the next watch-list if members wait for it. If only is not nil, gathered does so
// only if that is the next one.
func (h *Multiplexer) gathered(key listKey, only *sharedStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gatherings[key]
	if g == nil || only != nil && g.next != only {
		return
	}
	if g.next == nil || len(g.next.members) == 0 {
		delete(h.gatherings, key)
		return
	}
	g.beginLocked()
}

// beginLocked begins the next watch-list with the shards of every waiting member.
func (g *gathering) beginLocked() {
	s := g.next
	g.next = nil
	s.union = &source.Shards{By: s.asks.by, All: s.wanted()}
	if s.key.selects {
		s.opts.ShardSelector = s.union.Selector()
	}
	s.beginLocked()
}

// wanted returns the shards of every member.
func (s *sharedStream) wanted() []store.Shard {
	var all []store.Shard
	for _, m := range s.members {
		all = append(all, m.shards.All...)
	}
	return all
}

// placeListedLocked delivers an event of a watch-list to its members. An object outside the shards
// of every member shows that the server does not select, and the stream tells each member that it
// passed. An object of another member shows only that the watch-list continues. Every member
// receives bookmarks, errors and unreadable events, and judges them itself, because no order
// between members can break here.
//
// If the server selects and a member has left, an event in its shards ends the watch, unless the
// watch is still shorter than shortWatch. The other members then open watches of their own shards
// from their positions. Otherwise the server would go on sending objects that no member takes.
func (s *sharedStream) placeListedLocked(came *Batch, i int, n notice) bool {
	if n.kind == changing {
		taken, wanted := false, s.union.Contains(n.hash)
		for _, m := range s.members {
			switch {
			case m.shards.Contains(n.hash):
				m.putLocked(came, i, taken)
				taken = true
				continue
			case !wanted:
				m.passLocked(n.version)
			}
			if n.added && s.beats {
				m.tailLocked(false).Added = true // without its version
			}
		}
		s.ignored = s.ignored || !wanted
		left := s.key.selects && !s.ignored && wanted && !taken
		return !left || !s.listed || s.heard.Sub(s.opened) < protocol.ShortWatchTime
	}
	s.listed = s.listed || n.closing
	for _, m := range s.members {
		m.putLocked(came, i, true)
	}
	return n.kind != refusing
}

// forward is a member's part of a shared watch-list, in place of a watch of its own.
type forward struct{ *Member }

func (r forward) Response() any { return r.Answer() }
