package reflector

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hub has the watches that reflectors of several shards share: one for all who ask for the same.
//
// A member is somebody's watch. It begins with a tap of its own, or takes part in a trunk at once,
// if it needs nothing older than what comes next there. With a tap of its own, it registers with the
// trunk, which then keeps for it what comes after the position that it has. Once its own tap
// has brought everything up to that position, it is given up, and what was kept is next.
type hub struct {
	open func(context.Context, metav1.ListOptions) (tap, error)

	mu     sync.Mutex // protects the fields below, and what trunks and members say that it does
	trunks map[demand]*trunk
	// gatherings are those who wait for watch-lists.
	gatherings map[roll]*gathering
	// alone says until when some requests are not shared, since what came could not be put
	// into an order, or there was no trunk to be had.
	alone map[demand]time.Time
}

// demand is what those who share a watch ask for alike.
type demand struct {
	labels, fields string
	by             store.ShardKey
}

// How long some do not share after that turned out not to work.
const (
	orderless   = maxWatch
	unavailable = 30 * time.Second
)

func newHub(open func(context.Context, metav1.ListOptions) (tap, error)) *hub {
	return &hub{open: open, trunks: map[demand]*trunk{}, gatherings: map[roll]*gathering{}, alone: map[demand]time.Time{}}
}

// enter opens a watch for somebody, and returns when the server has accepted it. The member goes
// on until ctx ends, or the watch does, and must be closed.
func (h *hub) enter(ctx context.Context, opts metav1.ListOptions, shards *shardSet, sharding Sharding) (*member, error) {
	m := &member{
		hub: h, opts: opts, shards: shards, wake: make(chan struct{}, 1),
		asks: demand{opts.LabelSelector, opts.FieldSelector, shards.by},
	}
	if initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents; initial {
		return m.begins(h.gather(ctx, m))
	}
	from, numbered := revisionOf(opts.ResourceVersion)
	m.begun, m.odd, m.at = true, !numbered, from
	if numbered && sharding == ShardedByClient {
		m.everything = true
		m.opts.ShardSelector = "" // which one server of several may take all the same
		if done, err := h.enterTrunk(ctx, m); done {
			return m.begins(nil, err)
		}
	}
	return m.begins(h.open(ctx, m.opts))
}

// enterTrunk makes somebody take part in what is shared. It returns false if that begins later than
// is needed, or was refused to somebody else, which need not be so for this one: if all asked for
// it again, one after the other, the last would know late that the server does not answer.
func (h *hub) enterTrunk(ctx context.Context, m *member) (bool, error) {
	h.mu.Lock()
	t := h.trunkLocked(m.asks)
	began := t == nil && !h.aloneLocked(m.asks)
	if began {
		t = h.startLocked(ctx, m)
	}
	if t == nil || m.at < t.position {
		h.mu.Unlock()
		return false, nil
	}
	t.registerLocked(m)
	t.joinLocked(m)
	h.mu.Unlock()
	select {
	case <-t.answered:
	case <-ctx.Done():
		h.leave(m)
		return true, ctx.Err()
	}
	if t.refusal == nil {
		return true, nil
	}
	h.leave(m)
	if !began {
		return false, nil
	}
	return true, t.refusal
}

// trunkLocked returns what is shared by those who ask for something, if there is anything that
// one can join.
func (h *hub) trunkLocked(asks demand) *trunk {
	if t := h.trunks[asks]; t != nil && t.joinableLocked() {
		return t
	}
	return nil
}

func (h *hub) aloneLocked(asks demand) bool { return time.Now().Before(h.alone[asks]) }

// separateLocked makes those who ask for something do so alone for some time. Selectors come and
// go: what is over is forgotten.
func (h *hub) separateLocked(asks demand, lasting time.Duration) {
	now := time.Now()
	maps.DeleteFunc(h.alone, func(_ demand, until time.Time) bool { return !now.Before(until) })
	h.alone[asks] = now.Add(lasting)
}

// startLocked begins a trunk where a member is. It has nobody yet.
func (h *hub) startLocked(ctx context.Context, m *member) *trunk {
	t := h.newTrunk(ctx, m)
	t.position = m.at
	t.opts.ResourceVersion, t.opts.ResourceVersionMatch = m.at.String(), ""
	t.opts.ShardSelector, t.opts.SendInitialEvents = "", nil
	h.trunks[m.asks] = t
	t.beginLocked()
	return t
}

// newTrunk returns a trunk that asks for what a member does, and outlives it.
func (h *hub) newTrunk(ctx context.Context, m *member) *trunk {
	life := maxWatch
	if seconds := m.opts.TimeoutSeconds; seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	t := &trunk{
		hub: h, asks: m.asks, opts: m.opts, until: time.Now().Add(life),
		answered: make(chan struct{}), done: make(chan struct{}), room: make(chan struct{}, 1),
	}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// forgetLocked makes nobody join a trunk any more.
func (h *hub) forgetLocked(t *trunk) {
	if h.trunks[t.asks] == t {
		delete(h.trunks, t.asks)
	}
}

// leave takes a member out of its trunk. That of the last one is ended, and has when leave returns.
func (h *hub) leave(m *member) {
	h.mu.Lock()
	t := m.trunk
	last := t != nil && t.dropLocked(m)
	m.trunk, m.joined, m.inbox = nil, false, nil
	h.mu.Unlock()
	if last {
		<-t.done
	}
}
