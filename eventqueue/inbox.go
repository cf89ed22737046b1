package eventqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// inbox buffers the events of commits, so that the cache's writer and consumers do not wait for
// each other. A goroutine that locks the collection sorts in these events first. Consumers thus see
// the same state as if the writer had queued the events itself. The inbox is open only while no
// caller waits for an effect of an event itself: see Collection.regulateLocked.
type inbox[T any] struct {
	// nonEmpty is true if there are events. It is written under mu and read without.
	nonEmpty atomic.Bool

	// mu protects the fields below it. A goroutine takes it with or without Collection.mu, and
	// holds it only for moments.
	mu     sync.Mutex
	open   bool         // events may be left here
	events []arrival[T] // in the order in which they came

	// spare is the memory for the next events. Guarded by Collection.mu.
	spare []arrival[T]
}

// arrival is an event in the inbox that the collection has not queued yet.
type arrival[T any] struct {
	record record[T]
	came   time.Duration // the time of arrival: see now
}

// inboxSize is the largest number of events in an inbox. inboxIdle is the number of events for
// which an idle inbox keeps memory.
const (
	inboxSize = 64
	inboxIdle = 4
)

// put adds the events of changes to the inbox. It returns false if the caller must queue them
// directly: because the inbox is full or closed, or because the last event has the same key and
// merging is true.
func (b *inbox[T]) put(changes []store.Change[T], wanted []bool, origin Origin, initial, merging bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.events)
	if !b.open || n+len(changes) > inboxSize {
		return false
	}
	if len(changes) == 0 {
		return true
	}
	if merging && n > 0 && b.events[n-1].record.Key == changes[0].Key {
		return false // merge, instead of many states of an object that changes all the time
	}
	came := now()
	for i := range changes {
		r := newRecord(&changes[i], origin, initial)
		r.wanted = wanted != nil && wanted[i]
		b.events = append(b.events, arrival[T]{r, came})
	}
	b.nonEmpty.Store(true)
	return true
}

// setOpen opens or closes the inbox.
func (b *inbox[T]) setOpen(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

// take removes and returns all events. The caller holds Collection.mu, and returns the memory with
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

// shrink releases memory that an idle inbox does not need. The caller holds Collection.mu.
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

// close drops all events and closes the inbox for good. The caller holds Collection.mu.
func (b *inbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.events, b.spare = false, nil, nil
	b.nonEmpty.Store(false)
}
