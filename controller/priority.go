package controller

import (
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

// Priority says which of the keys that wait is reconciled first. Keys of the same
// priority are in the order in which they came.
type Priority int8

const (
	// Low is the priority of what only the first list or a resync brought.
	Low Priority = iota - 1
	// Normal is the priority of what happens, and that of the zero Result.
	Normal
	// High goes before both. Nothing has it by itself.
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

// clamp returns the priority that there is nearest to p.
func (p Priority) clamp() Priority { return min(max(p, Low), High) }

// fairness is how many keys are taken until one is of the lowest priority that waits,
// whatever else does: nothing starves.
const fairness = 8

// ordering is the order of a work queue. A work queue knows keys alone: the priority of
// one is told here, before the key is added there.
type ordering struct {
	// flat is true if all keys are equal.
	flat bool

	// mu protects the fields below it. The work queue holds its own lock when it calls.
	mu     sync.Mutex
	wanted map[store.Key]Priority // of keys that are about to be pushed or touched
	place  map[store.Key]Priority // of keys that wait
	lines  [priorities][]store.Key
	taken  map[store.Key]Priority // of keys that are being worked on
	turn   int
}

var _ workqueue.Queue[store.Key] = (*ordering)(nil)

func newOrdering(flat bool) *ordering {
	return &ordering{
		flat:   flat,
		wanted: map[store.Key]Priority{}, place: map[store.Key]Priority{}, taken: map[store.Key]Priority{},
	}
}

// want says what priority a key is to have that is added next: the highest that
// anybody wants since it was last taken.
func (o *ordering) want(key store.Key, p Priority) {
	if p = p.clamp(); o.flat {
		p = Normal
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if other, ok := o.wanted[key]; !ok || other < p {
		o.wanted[key] = p
	}
}

// Push implements [workqueue.Queue].
func (o *ordering) Push(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.appendLocked(key, o.wanted[key]) // Normal, if nobody said anything
	delete(o.wanted, key)
}

// Touch implements [workqueue.Queue]: a key that waits may move forward.
func (o *ordering) Touch(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.wanted[key]
	delete(o.wanted, key)
	if ok && p > o.place[key] {
		o.appendLocked(key, p) // what is left in the other line is skipped
	}
}

func (o *ordering) appendLocked(key store.Key, p Priority) {
	o.place[key] = p
	o.lines[p-Low] = append(o.lines[p-Low], key)
}

// Len implements [workqueue.Queue].
func (o *ordering) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.place)
}

// Pop implements [workqueue.Queue]. Something must wait.
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
			delete(o.place, key)
			o.taken[key] = p
			return key
		}
	}
	panic("controller: Pop of an empty queue")
}

// popLocked takes the first key of a line that is still in it.
func (o *ordering) popLocked(p Priority) (store.Key, bool) {
	line := &o.lines[p-Low]
	for len(*line) > 0 {
		key := (*line)[0]
		(*line)[0] = store.Key{}
		*line = (*line)[1:]
		if at, ok := o.place[key]; ok && at == p {
			return key, true
		}
	}
	*line = nil
	return store.Key{}, false
}

// settle returns the priority with which a key was taken, and forgets it.
func (o *ordering) settle(key store.Key) Priority {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.taken[key]
	delete(o.taken, key)
	return p
}
