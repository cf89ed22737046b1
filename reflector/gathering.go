package reflector

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roll is what those ask for alike who share a watch-list.
type roll struct {
	demand
	version string
	match   metav1.ResourceVersionMatch
	selects bool // the server is asked for shards
}

// gathering is those who wait while somebody asks for a watch-list. They ask for the next one
// together, with the shards of all of them: so whoever selects, all comes once, and each finds out
// by it who does. It lasts for as long as each of them needs to join a trunk, or stays what they
// have, if the server selects.
type gathering struct {
	next *trunk // not begun yet; nil if nobody waits
}

const (
	// gatherPatience is how long the next watch-list waits for the answer to the one before.
	gatherPatience = time.Second
	// gatherMost is how many shards a selector may have of several members: it is in a URL.
	gatherMost = 32
	// stirEvery is how often those are told that a watch-list goes on for whom nothing comes.
	stirEvery = time.Second
)

// gather asks for a watch-list.
func (h *hub) gather(ctx context.Context, m *member) (tap, error) {
	if len(m.shards.all) > gatherMost {
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
	if g.next != nil && len(g.next.wanted())+len(m.shards.all) > gatherMost {
		g.beginLocked()
	}
	if g.next == nil {
		g.next = h.newTrunk(ctx, m)
		g.next.roll = &key
	}
	t := g.next
	part := &member{hub: h, asks: m.asks, shards: m.shards, wake: make(chan struct{}, 1)}
	t.registerLocked(part)
	part.joined = true
	h.mu.Unlock()
	if err := h.await(ctx, t); err != nil {
		h.leave(part)
		return nil, err
	}
	return relay{part}, nil
}

// await waits until the server has answered, and sees to it that it is asked soon.
func (h *hub) await(ctx context.Context, t *trunk) error {
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

// gathered lets those ask who have waited for that.
func (h *hub) gathered(key roll) {
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

// beginLocked lets those ask who wait.
func (g *gathering) beginLocked() {
	t := g.next
	g.next = nil
	t.union = &shardSet{by: t.asks.by, all: t.wanted()}
	if t.roll.selects {
		t.opts.ShardSelector = t.union.selector()
	}
	t.beginLocked()
}

// wanted returns the shards of all members.
func (t *trunk) wanted() []store.Shard {
	var all []store.Shard
	for _, m := range t.members {
		all = append(all, m.shards.all...)
	}
	return all
}

// placeListedLocked puts an event of a watch-list where it belongs. What none of its members
// wanted says that the server does not select; what another wanted says nothing, but that the
// server has not come to the end. What nobody can tell is for each to judge: there is no order
// here that it could break.
//
// An event in the shards of a member that left ends the watch, as soon as it is not a short one:
// the others open watches of their own shards from where they are. Otherwise a server that
// selects would go on sending them what nobody takes.
func (t *trunk) placeListedLocked(came *haul, i int, n notice) bool {
	if n.kind == changing {
		taken, wanted := false, t.union.contains(n.hash)
		for _, m := range t.members {
			switch {
			case m.shards.contains(n.hash):
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
		return !left || !t.listed || t.heard.Sub(t.opened) < shortWatch
	}
	t.listed = t.listed || n.closing
	for _, m := range t.members {
		m.putLocked(came, i, true)
	}
	return n.kind != refusing
}

// relay is what somebody gets of a watch-list that is shared, in the place of one of its own.
type relay struct{ *member }

func (r relay) of() *answer { return r.answer() }
