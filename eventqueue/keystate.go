package eventqueue

import (
	"hash/maphash"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// keyState is the state of one key: the events that wait for the next Queue, and the Queue that is
// out. Guarded by Collection.mu.
type keyState[T any] struct {
	key  store.Key
	hash uint64 // of key

	waiting backlog[T]
	out     *Queue[T] // nil if no consumer holds one

	// failures counts the failed attempts since the key was last acknowledged. err is the last
	// error.
	failures int32
	// hastened is true if the key was handed out before backoffEnd, or if a server asked for the wait.
	// It is then not handed out again before that time.
	hastened bool
	err      error
	// backoffEnd is the end of the failed key's back-off, also if an event has brought the retry
	// forward. It has no meaning without a failure.
	backoffEnd time.Duration

	// heapIndex is the key's place in the heap of delayed keys, or -1. A key in the heap has no place
	// in a ring. due is the end of its back-off or delay.
	heapIndex int32
	due       time.Duration

	place place[T]
}

// waits reports whether events wait for the next Queue.
func (k *keyState[T]) waits() bool { return len(k.waiting.events) > 0 }

// backlog holds the events of one key that wait or are out together. A waiting backlog moves into
// the Queue that is handed out.
type backlog[T any] struct {
	events []record[T]
	// first is the first memory of events, so that the usual backlog of one event needs no
	// allocation.
	first [1]record[T]

	// since is the time at which the oldest event came: see now.
	since time.Duration

	// merged is the number of events that were merged into events.
	merged int32

	// live is true if at least one event is live.
	live bool
	// initial is true if Synced waits for these events to be settled.
	initial bool
}

// set replaces the events.
func (b *backlog[T]) set(events []record[T]) {
	b.events = events
	if len(events) == 0 || &events[0] != &b.first[0] {
		b.first[0] = record[T]{} // release objects that may be gone
	}
}

// moveTo moves the events to an empty backlog.
func (b *backlog[T]) moveTo(to *backlog[T]) {
	*to = *b
	if &b.events[0] == &b.first[0] {
		to.events = to.first[:]
	}
	*b = backlog[T]{}
}

// freeState allows another use of a state. The caller must not use it any more.
func (c *Collection[T]) freeState(k *keyState[T]) {
	*k = keyState[T]{heapIndex: -1}
	c.free.Put(k)
}

// freeLists holds a *sync.Pool of unused key states for each type of object. All collections of a
// type share it: keys come and go with each event, and 1,000 handlers with a list each would keep
// more memory than the CPU's caches hold.
var freeLists sync.Map

func freeList[T any]() *sync.Pool {
	list, _ := freeLists.LoadOrStore(reflect.TypeFor[T](), &sync.Pool{New: func() any {
		return &keyState[T]{heapIndex: -1}
	}})
	return list.(*sync.Pool)
}

// keyTable finds the state of each key that waits or is out. It is a hash table with linear
// probing. A map would hash the three strings of a key three times for each event, and would never
// release memory. Guarded by Collection.mu.
type keyTable[T any] struct {
	slots []*keyState[T] // the length is a power of two; at most half of them are in use
	len   int
}

// minSlots is the smallest number of slots after the first key. A table of at most fewSlots slots
// is not shrunk by remove.
const (
	minSlots = 8
	fewSlots = 1024
)

var keySeed = maphash.MakeSeed()

// hashOf returns the hash of a key. The hash differs between processes.
func hashOf(key store.Key) uint64 {
	const odd = 0x9e3779b97f4a7c15 // spreads the sum over all bits
	h := maphash.String(keySeed, key.Name) + odd*maphash.String(keySeed, key.Namespace)
	if key.Cluster != "" {
		h = h*odd + maphash.String(keySeed, key.Cluster)
	}
	return h
}

// slot returns the first slot to look into for a hash.
func (t *keyTable[T]) slot(hash uint64) int { return int(hash & uint64(len(t.slots)-1)) }

// after returns the slot behind a slot.
func (t *keyTable[T]) after(i int) int { return (i + 1) & (len(t.slots) - 1) }

// get returns the state of a key with the given hash, or nil.
func (t *keyTable[T]) get(key store.Key, hash uint64) *keyState[T] {
	if t.len == 0 {
		return nil
	}
	i := t.slot(hash)
	for t.slots[i] != nil && (t.slots[i].hash != hash || t.slots[i].key != key) {
		i = t.after(i)
	}
	return t.slots[i]
}

// add adds a state with a key that no other state has.
func (t *keyTable[T]) add(k *keyState[T]) {
	if 2*t.len >= len(t.slots) {
		t.resize(max(2*len(t.slots), minSlots))
	}
	t.len++
	t.insert(k)
}

func (t *keyTable[T]) insert(k *keyState[T]) {
	i := t.slot(k.hash)
	for t.slots[i] != nil {
		i = t.after(i)
	}
	t.slots[i] = k
}

// remove removes a state.
func (t *keyTable[T]) remove(k *keyState[T]) {
	gap := t.slot(k.hash)
	for t.slots[gap] != k {
		gap = t.after(gap)
	}
	// Move back each later state that get would not find behind the gap.
	for i := t.after(gap); t.slots[i] != nil; i = t.after(i) {
		mask := len(t.slots) - 1
		if (i-t.slot(t.slots[i].hash))&mask >= (i-gap)&mask {
			t.slots[gap], gap = t.slots[i], i
		}
	}
	t.slots[gap] = nil
	t.len--
	if len(t.slots) > fewSlots {
		t.fit()
	}
}

// fit shrinks the table if less than one sixteenth is in use.
func (t *keyTable[T]) fit() {
	if len(t.slots) <= minSlots || t.len >= len(t.slots)/16 {
		return
	}
	slots := minSlots
	for slots < 4*t.len {
		slots *= 2 // leave room for as many keys again
	}
	t.resize(slots)
}

func (t *keyTable[T]) resize(slots int) {
	old := t.slots
	t.slots = make([]*keyState[T], slots)
	for _, k := range old {
		if k != nil {
			t.insert(k)
		}
	}
}

// all iterates over the states, in no order. The body must not add or remove states.
func (t *keyTable[T]) all() iter.Seq[*keyState[T]] {
	return func(yield func(*keyState[T]) bool) {
		for _, k := range t.slots {
			if k != nil && !yield(k) {
				return
			}
		}
	}
}
