package eventqueue

import (
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// buffer holds events that the collection has not queued yet, in the order in which they came. A
// writer only leaves pointers in it, so that it does not wait for consumers and does not load the
// key states of many handlers into the CPU's caches. A goroutine that locks the collection queues
// these events first: see Collection.lock. Consumers thus see the same state as if the writer had
// queued the events itself.
//
// The lock of the cache's writer guards the writing end, and Collection.mu the reading end.
type buffer[T any] struct {
	ring           *[bufferSize]arrival[T] // nil before the first event
	written, taken atomic.Uint32           // numbers of events since the beginning
	last           store.Key               // of the last event; belongs to the writer
}

// bufferSize is the largest number of events in a buffer.
const bufferSize = 64

// arrival is an event in a buffer.
type arrival[T any] struct {
	*news[T]
	wanted bool // the predicate of KeepIf selected the event
}

// news is an event of a commit and the time at which it came: see now. All collections that follow
// a cache share it, because 1,000 copies of each event cost more than all the rest. It never
// changes.
type news[T any] struct {
	record record[T]
	came   time.Duration
}

func (b *buffer[T]) empty() bool { return b.written.Load() == b.taken.Load() }

// room returns the number of events that still fit.
func (b *buffer[T]) room() int { return bufferSize - int(b.written.Load()-b.taken.Load()) }

// append adds events. There must be room for them.
func (b *buffer[T]) append(all []news[T], wanted []bool) {
	if b.ring == nil {
		b.ring = new([bufferSize]arrival[T])
	}
	n := b.written.Load()
	for i := range all {
		b.ring[(n+uint32(i))%bufferSize] = arrival[T]{&all[i], i < len(wanted) && wanted[i]}
	}
	b.last = all[len(all)-1].record.Key
	b.written.Add(uint32(len(all)))
}

// take removes and returns the oldest event. The buffer must not be empty.
func (b *buffer[T]) take() arrival[T] {
	a := &b.ring[b.taken.Load()%bufferSize]
	first := *a
	*a = arrival[T]{}
	b.taken.Add(1)
	return first
}
