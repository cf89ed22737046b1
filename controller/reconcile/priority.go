package reconcile

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

// Priority sets which queued key is reconciled first. Keys of the same priority keep their order.
type Priority int8

const (
	// Low is the priority of initial additions and resyncs.
	Low Priority = iota - 1
	// Normal is the priority of live events, and of the zero Result.
	Normal
	// High goes before both. Only a [Result] sets it.
	High

	priorities = int(High-Low) + 1
)

// String returns "Low", "Normal" or "High".
func (p Priority) String() string {
	switch p {
	case Low:
		return "Low"
	case Normal:
		return "Normal"
	case High:
		return "High"
	}
	return fmt.Sprintf("Priority(%d)", int8(p))
}

// clamp returns the valid priority that is nearest to p.
func (p Priority) clamp() Priority { return min(max(p, Low), High) }

// fairness prevents starvation: one in so many keys is taken from the lowest priority that has
// keys.
const fairness = 8

// ordering is the order of a work queue. A work queue knows only keys, so the ordering gets the
// priority of a key before the key is added to the queue.
type ordering struct {
	// mu protects the fields below it. The work queue holds its own lock when it calls.
	mu     sync.Mutex
	wanted map[store.Key]Priority // of keys that are about to be pushed or touched
	later  map[store.Key]Priority // of keys that come after a time
	places map[store.Key]place    // of keys that wait
	lines  [priorities]line
	taken  map[store.Key]Priority // of keys that are being worked on
	pushed uint64                 // how many keys have been appended to lines
	turn   int
}

// place is the position of a waiting key.
type place struct {
	priority Priority
	number   uint64 // of its entry in the line
}

// line holds the keys of one priority, in order.
type line struct {
	entries []entry
	left    int // entries of keys that have moved to another line since
}

type entry struct {
	key    store.Key
	number uint64
}

var _ workqueue.Queue[store.Key] = (*ordering)(nil)

func newOrdering() *ordering {
	return &ordering{
		wanted: map[store.Key]Priority{}, later: map[store.Key]Priority{},
		places: map[store.Key]place{}, taken: map[store.Key]Priority{},
	}
}

// want sets the priority for the next addition of a key: the highest one requested since it was
// last taken.
func (o *ordering) want(key store.Key, p Priority) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.wanted, key, p)
}

// wantLater is want for a key with a delayed addition. An earlier addition has its own priority.
func (o *ordering) wantLater(key store.Key, p Priority) {
	o.mu.Lock()
	defer o.mu.Unlock()
	raise(o.later, key, p)
}

// due marks that the delay of a key is over.
func (o *ordering) due(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.later[key]; ok {
		delete(o.later, key)
		raise(o.wanted, key, p)
	}
}

func raise(all map[store.Key]Priority, key store.Key, p Priority) {
	p = p.clamp()
	if other, ok := all[key]; !ok || other < p {
		all[key] = p
	}
}

// Push implements [workqueue.Queue].
func (o *ordering) Push(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.appendLocked(key, o.wanted[key]) // Normal, if none was requested
	delete(o.wanted, key)
}

// Touch implements [workqueue.Queue]: a key that waits may move forward.
func (o *ordering) Touch(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.wanted[key]
	delete(o.wanted, key)
	at := o.places[key]
	if !ok || p <= at.priority {
		return
	}
	o.appendLocked(key, p)
	line := &o.lines[at.priority-Low]
	if line.left++; line.left > len(line.entries)/2 {
		line.entries = slices.DeleteFunc(line.entries, func(e entry) bool { return o.places[e.key].number != e.number })
		line.left = 0
	}
}

func (o *ordering) appendLocked(key store.Key, p Priority) {
	o.pushed++
	o.places[key] = place{p, o.pushed}
	line := &o.lines[p-Low]
	line.entries = append(line.entries, entry{key, o.pushed})
}

// Len implements [workqueue.Queue].
func (o *ordering) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.places)
}

// Pop implements [workqueue.Queue]. The queue must not be empty.
func (o *ordering) Pop() store.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turn++
	for i := range priorities {
		p := High - Priority(i)
		if o.turn%fairness == 0 {
			p = Low + Priority(i)
		}
		if key, ok := o.popLocked(p); ok {
			delete(o.places, key)
			o.taken[key] = p
			return key
		}
	}
	panic("controller: Pop of an empty queue")
}

// popLocked takes the first key of a line. It skips keys that have moved to another line.
func (o *ordering) popLocked(p Priority) (store.Key, bool) {
	line := &o.lines[p-Low]
	for len(line.entries) > 0 {
		first := line.entries[0]
		line.entries[0] = entry{}
		line.entries = line.entries[1:]
		if o.places[first.key].number == first.number {
			return first.key, true
		}
		line.left--
	}
	line.entries = nil
	return store.Key{}, false
}

// settle returns the priority with which a key was taken, and removes it.
func (o *ordering) settle(key store.Key) Priority {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.taken[key]
	delete(o.taken, key)
	return p
}

// delayed is the work queue for delayed additions.
type delayed struct {
	workqueue.TypedInterface[store.Key]
	order *ordering
}

// Add implements [workqueue.TypedInterface].
func (d delayed) Add(key store.Key) {
	d.order.due(key)
	d.TypedInterface.Add(key)
}
