package inspect

import (
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// entry is a change in the history. It keeps no object alive.
type entry struct {
	at              time.Time
	key             store.Key
	version         store.Version
	kind            store.ChangeType
	origin          store.Origin
	initial         bool
	finalStateKnown bool
}

// rateSpan is the number of seconds over which the rate of changes is averaged.
const rateSpan = 10

// history is the last changes of a cache. It is a [store.Follower].
type history[T any] struct {
	// mu protects the fields below it. Commits take it inside the cache's writer lock.
	mu      sync.Mutex
	entries []entry // a ring: the newest is at (total-1) % size; nil before the first
	size    int     // does not change
	total   uint64
	// seconds counts the changes of each of the last seconds. Second n is at n % (rateSpan+1). The
	// current second is not full yet.
	seconds [rateSpan + 1]uint64
	second  int64 // the current one
}

var _ store.Follower[any] = (*history[any])(nil)

// Start implements [store.Follower].
func (h *history[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (h *history[T]) Commit(c *store.Commit[T]) {
	if len(c.Changes) == 0 {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickLocked(now)
	h.seconds[h.second%(rateSpan+1)] += uint64(len(c.Changes))
	skip := max(len(c.Changes)-h.size, 0) // they would be overwritten at once
	h.total += uint64(skip)
	if h.entries == nil {
		h.entries = make([]entry, h.size)
	}
	for i := range c.Changes[skip:] {
		change := &c.Changes[skip+i]
		if h.size > 0 {
			h.entries[h.total%uint64(h.size)] = entry{now, change.Key, change.Version, change.Type, c.Origin, c.Initial, change.FinalStateKnown}
		}
		h.total++
	}
}

// tickLocked removes the seconds that are over.
func (h *history[T]) tickLocked(now time.Time) {
	second := now.Unix()
	if second-h.second > rateSpan {
		h.seconds = [rateSpan + 1]uint64{}
	}
	for n := h.second + 1; n <= second && n <= h.second+rateSpan; n++ {
		h.seconds[n%(rateSpan+1)] = 0
	}
	h.second = second
}

// count returns the number of changes so far, and their rate in a second.
func (h *history[T]) count() (total uint64, rate float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickLocked(time.Now())
	for n, changes := range h.seconds {
		if int64(n) != h.second%(rateSpan+1) {
			rate += float64(changes)
		}
	}
	return h.total, rate / rateSpan
}

// last returns up to limit wanted changes, the newest first.
func (h *history[T]) last(limit int, wanted func(key) bool) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	changes := []Change{}
	for n := uint64(1); n <= min(h.total, uint64(h.size)) && len(changes) < limit; n++ {
		e := &h.entries[(h.total-n)%uint64(h.size)]
		if !wanted(key(e.key)) {
			continue
		}
		changes = append(changes, Change{
			At: e.at, Type: e.kind.String(), Origin: e.origin.String(), Key: e.key.String(),
			ResourceVersion: e.version.ResourceVersion, UID: string(e.version.UID),
			Initial: e.initial, FinalStateKnown: e.finalStateKnown, where: key(e.key),
		})
	}
	return changes
}
