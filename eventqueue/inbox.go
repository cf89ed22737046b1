package eventqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// inbox is where commits leave events, so that the cache's writer and those who consume
// do not wait for each other. Whoever locks the collection sorts them in first, so that
// to everybody who looks it is as if the writer had done it. It is open only while nobody
// waits for what an event may bring about by itself: see Collection.regulateLocked.
type inbox[T any] struct {
	// nonEmpty is true if there are events. It is written under mu and read without.
	nonEmpty atomic.Bool

	// mu protects the fields below it. It is taken inside Collection.mu or without
	// that, and held for moments.
	mu      sync.Mutex
	open    bool         // events may be left here
	merging bool         // events of one key are merged where they wait, and so not here
	events  []arrival[T] // in the order in which they came

	// spare is the memory for the next events. Guarded by Collection.mu.
	spare []arrival[T]
}

// arrival is an event that was not looked at yet.
type arrival[T any] struct {
	record record[T]
	came   time.Duration // when: see now
}

// How many events an inbox holds at most, and for how many it keeps room while nothing
// happens.
const (
	inboxSize = 64
	inboxIdle = 4
)

// put leaves the events that changes mean. It returns false if they have to be queued
// directly: because there is no room, or nobody may leave events here.
func (b *inbox[T]) put(changes []store.Change[T], origin Origin, initial bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.events)
	if !b.open || n+len(changes) > inboxSize {
		return false
	}
	if len(changes) == 0 {
		return true
	}
	if b.merging && n > 0 && b.events[n-1].record.Key == changes[0].Key {
		return false // an object that changes all the time is not kept in many states
	}
	came := now()
	for i := range changes {
		b.events = append(b.events, arrival[T]{newRecord(&changes[i], origin, initial), came})
	}
	b.nonEmpty.Store(true)
	return true
}

// setOpen says whether events may be left.
func (b *inbox[T]) setOpen(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

// take takes all events out. The caller holds Collection.mu, and returns their memory by
// reuse.
func (b *inbox[T]) take() []arrival[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events, b.spare = b.spare, nil
	b.nonEmpty.Store(false)
	return events
}

func (b *inbox[T]) reuse(events []arrival[T]) {
	clear(events)
	b.spare = events[:0]
}

// shrink gives memory back that is not needed while nothing happens. The caller holds
// Collection.mu.
func (b *inbox[T]) shrink() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 && cap(b.events) > inboxIdle {
		b.events = nil
	}
	if cap(b.spare) > inboxIdle {
		b.spare = nil
	}
}

// close drops all events, and takes no more. The caller holds Collection.mu.
func (b *inbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.events, b.spare = false, nil, nil
	b.nonEmpty.Store(false)
}
