package eventqueue

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// TakeInfo describes a queue that the collection handed out.
type TakeInfo struct {
	Key store.Key
	// Waited is the time since the oldest event of the queue came. For an event that was handed out
	// before, it counts from the event's arrival, not from its return.
	Waited time.Duration
	// Events is the number of events in the queue. Merged is the number of other events that were
	// merged into them. Events that cancel each other are never handed out; only [Stats] counts
	// them.
	Events, Merged int
	// Attempt is one more than the number of failures of the key: see [Queue.Attempt].
	Attempt int
}

// WithObserver adds a function that the collection calls for each queue that it hands out, for
// metrics and traces. Several functions are all called. Nil adds none.
//
// The goroutine that takes the queue calls the function before the consumer gets the queue, so calls
// run concurrently. No lock is held. The function must be quick and must not panic.
func WithObserver(taken func(TakeInfo)) Option {
	return optionFunc(func(o *options) {
		first := o.observer
		switch {
		case taken == nil:
		case first == nil:
			o.observer = taken
		default:
			o.observer = func(info TakeInfo) { first(info); taken(info) }
		}
	})
}

// observe calls the observer for a queue that was handed out.
func (c *Collection[T]) observe(q *Queue[T]) {
	c.observer(TakeInfo{
		Key: q.Key(), Waited: now() - q.since, Events: len(q.events), Merged: int(q.merged), Attempt: q.Attempt(),
	})
}
