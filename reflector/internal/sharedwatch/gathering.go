package sharedwatch

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roll is the request that all members of a shared watch-list have in common.
type roll struct {
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
	next *trunk // not begun yet; nil if no member waits
}

const (
	// gatherPatience is how long the next watch-list waits for the server's answer to the previous
	// one.
	gatherPatience = time.Second
	// gatherMost is the maximum number of shards in the selector of several members. The selector
	// is part of a URL.
	gatherMost = 32
	// stirEvery is the interval at which members without objects of their own receive a sign that
	// the watch-list continues.
	stirEvery = time.Second
)

// gather opens a watch-list for a member, either its own or a shared one.
func (h *Multiplexer) gather(ctx context.Context, m *Member) (Upstream, error) {
	if len(m.shards.All) > gatherMost {
		return h.open(ctx, m.opts)
	}
	key := roll{m.asks, m.opts.ResourceVersion, m.opts.ResourceVersionMatch, m.opts.ShardSelector != ""}
	h.mu.Lock()
	g := h.gatherings[key]
	if g == nil {
		h.gatherings[key] = &gathering{}
		h.mu.Unlock()
		defer h.gathered(key)
		return h.open(ctx, m.opts)
	}
	if g.next != nil && len(g.next.wanted())+len(m.shards.All) > gatherMost {
		g.beginLocked()
	}
	if g.next == nil {
		g.next = h.newTrunk(ctx, m)
		g.next.roll = &key
	}
	t := g.next
	part := &Member{hub: h, asks: m.asks, shards: m.shards, wake: make(chan struct{}, 1)}
	t.registerLocked(part)
	part.joined = true
	h.mu.Unlock()
	if err := h.await(ctx, t); err != nil {
		h.leave(part)
		return nil, err
	}
	return relay{part}, nil
}

// await waits for the server's answer. If the previous request takes longer than gatherPatience,
// await begins this one.
func (h *Multiplexer) await(ctx context.Context, t *trunk) error {
	patience := time.NewTimer(gatherPatience)
	defer patience.Stop()
	for {
		select {
		case <-t.answered:
			return t.refusal
		case <-patience.C:
			h.mu.Lock()
			late := h.gatherings[*t.roll]
			waits := late != nil && late.next == t
			h.mu.Unlock()
			if waits {
				h.gathered(*t.roll)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gathered begins the next watch-list if members wait for it.
func (h *Multiplexer) gathered(key roll) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gatherings[key]
	if g == nil {
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
	t := g.next
	g.next = nil
	t.union = &source.Shards{By: t.asks.by, All: t.wanted()}
	if t.roll.selects {
		t.opts.ShardSelector = t.union.Selector()
	}
	t.beginLocked()
}

// wanted returns the shards of every member.
func (t *trunk) wanted() []store.Shard {
	var all []store.Shard
	for _, m := range t.members {
		all = append(all, m.shards.All...)
	}
	return all
}

// placeListedLocked delivers an event of a watch-list to its members. An object outside the shards
// of every member shows that the server does not select, and the trunk tells each member that it
// passed. An object of another member shows only that the watch-list continues. Every member
// receives bookmarks, errors and unreadable events, and judges them itself, because no order
// between members can break here.
//
// If the server selects and a member has left, an event in its shards ends the watch, unless the
// watch is still shorter than shortWatch. The other members then open watches of their own shards
// from their positions. Otherwise the server would go on sending objects that no member takes.
func (t *trunk) placeListedLocked(came *Batch, i int, n notice) bool {
	if n.kind == changing {
		taken, wanted := false, t.union.Contains(n.hash)
		for _, m := range t.members {
			switch {
			case m.shards.Contains(n.hash):
				m.putLocked(came, i, taken)
				taken = true
				continue
			case !wanted:
				m.passLocked(n.version)
			}
			if n.added && t.stirs {
				m.stirLocked()
			}
		}
		t.ignored = t.ignored || !wanted
		left := t.roll.selects && !t.ignored && wanted && !taken
		return !left || !t.listed || t.heard.Sub(t.opened) < protocol.ShortWatchTime
	}
	t.listed = t.listed || n.closing
	for _, m := range t.members {
		m.putLocked(came, i, true)
	}
	return n.kind != refusing
}

// relay is a member's part of a shared watch-list, in place of a watch of its own.
type relay struct{ *Member }

func (r relay) Response() any { return r.Answer() }
