package inspect

import (
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// entry is a change in the history.
type entry[T any] struct {
	at              time.Time
	key             store.Key
	version         store.Version
	kind            store.ChangeType
	origin          store.Origin
	initial         bool
	finalStateKnown bool

	// before and after are the object before and after the change, if held is true. They keep the
	// objects alive.
	held          bool
	before, after T
}

// change returns the entry without its objects.
func (e *entry[T]) change() Change {
	return Change{
		At: e.at, Type: e.kind.String(), Origin: e.origin.String(), Key: e.key.String(),
		ResourceVersion: e.version.ResourceVersion, UID: string(e.version.UID),
		Initial: e.initial, FinalStateKnown: e.finalStateKnown, where: key(e.key),
	}
}

// rateSpan is the number of seconds over which the rate of changes is averaged.
const rateSpan = 10

// history is the last changes of a cache. It is a [store.Follower].
type history[T any] struct {
	// mu protects the fields below it. Commits take it inside the cache's writer lock.
	mu       sync.Mutex
	entries  []entry[T] // a ring: the newest is at (total-1) % size; nil before the first
	size     int        // does not change
	versions int        // the number of the newest entries that hold objects; does not change
	total    uint64
	newest   time.Time // the time of the last change
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
	h.newest = now
	h.seconds[h.second%(rateSpan+1)] += uint64(len(c.Changes))
	skip := max(len(c.Changes)-h.size, 0) // they would be overwritten at once
	h.total += uint64(skip)
	if h.entries == nil {
		h.entries = make([]entry[T], h.size)
	}
	for i := range c.Changes[skip:] {
		h.addLocked(now, c, &c.Changes[skip+i])
	}
}

func (h *history[T]) addLocked(now time.Time, c *store.Commit[T], change *store.Change[T]) {
	if h.size > 0 {
		e := h.entryLocked(h.total)
		*e = entry[T]{
			at: now, key: change.Key, version: change.Version, kind: change.Type, origin: c.Origin,
			initial: c.Initial, finalStateKnown: change.FinalStateKnown,
		}
		if h.versions > 0 && change.Type != store.Addition {
			e.held, e.before, e.after = true, change.Prior, change.Object
		}
		if h.versions < h.size && h.total >= uint64(h.versions) {
			var none T
			old := h.entryLocked(h.total - uint64(h.versions))
			old.held, old.before, old.after = false, none, none
		}
	}
	h.total++
}

// entryLocked returns the place of the change with a number, beginning at 0.
func (h *history[T]) entryLocked(n uint64) *entry[T] { return &h.entries[n%uint64(h.size)] }

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

// count returns the number of changes so far, their rate in a second, and the time of the last one.
func (h *history[T]) count() (total uint64, rate float64, newest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickLocked(time.Now())
	for n, changes := range h.seconds {
		if int64(n) != h.second%(rateSpan+1) {
			rate += float64(changes)
		}
	}
	return h.total, rate / rateSpan, h.newest
}

// last returns up to limit wanted changes, the newest first.
func (h *history[T]) last(limit int, wanted func(key) bool) []entry[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []entry[T]
	for n := uint64(1); n <= min(h.total, uint64(h.size)) && len(found) < limit; n++ {
		if e := h.entryLocked(h.total - n); wanted(key(e.key)) {
			found = append(found, *e)
		}
	}
	return found
}

// changesOf returns the entries without their objects.
func changesOf[T any](entries []entry[T]) []Change {
	changes := []Change{}
	for _, e := range entries {
		changes = append(changes, e.change())
	}
	return changes
}
