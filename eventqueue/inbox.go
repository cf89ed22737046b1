package eventqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// inbox is where commits leave events, so that the cache's writer and those who consume
// do not wait for each other. Whoever locks the collection sorts them in first, so that
// to everybody it is as if the writer had done it.
type inbox[T any] struct {
	// some is true if there are events. It is written under mu and read without.
	some atomic.Bool

	// mu protects the fields below it. It is taken inside Collection.mu or without
	// that, and held for moments.
	mu     sync.Mutex
	open   bool          // events may be left here
	events []record[T]   // in the order in which they came
	since  time.Duration // when the first of them did

	// empty is the memory for the next events. Guarded by Collection.mu.
	empty []record[T]
}

// How many events an inbox holds at most, and for how many it keeps room while nothing
// happens.
const (
	inboxSize = 64
	inboxRest = 4
)

// put leaves the events that changes mean. It returns false if they have to be queued
// directly: because there is no room, or nobody may leave events here.
func (b *inbox[T]) put(changes []store.Change[T], origin Origin, initial bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || len(b.events)+len(changes) > inboxSize {
		return false
	}
	if len(changes) > 0 && len(b.events) == 0 {
		b.since = now()
		b.some.Store(true)
	}
	for i := range changes {
		b.events = append(b.events, newRecord(&changes[i], origin, initial))
	}
	return true
}

// allow says whether events may be left.
func (b *inbox[T]) allow(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

// take takes all events out. The caller holds Collection.mu, and returns their memory by
// reuse.
func (b *inbox[T]) take() (events []record[T], since time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, since = b.events, b.since
	b.events, b.empty = b.empty, nil
	b.some.Store(false)
	return events, since
}

func (b *inbox[T]) reuse(events []record[T]) {
	clear(events)
	b.empty = events[:0]
}

// rest gives memory back that is not needed while nothing happens. The caller holds
// Collection.mu.
func (b *inbox[T]) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 && cap(b.events) > inboxRest {
		b.events = nil
	}
	if cap(b.empty) > inboxRest {
		b.empty = nil
	}
}

// close drops all events, and takes no more.
func (b *inbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.events = false, nil
	b.some.Store(false)
}
