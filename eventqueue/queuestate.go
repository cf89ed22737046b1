package eventqueue

import (
	"iter"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// QueueState is the state of the queue of one object: see [Collection.QueueStates].
type QueueState struct {
	Key store.Key
	// Events is the number of events in the queue. Events that the holder completed count until the
	// queue is settled.
	Events int
	// Age is the time since the oldest event came, even if later events were merged with it.
	Age time.Duration
	// Out is true while the queue is handed out. The object can then have a second queue with later
	// events.
	Out bool
	// Failures is the number of failed attempts since the last success. Err is the last error; it
	// is nil if no attempt failed.
	Failures int
	Err      error
	// RetryIn is the rest of the back-off, or 0 if there is none.
	RetryIn time.Duration
}

// QueueStates returns the states of at most limit queues that wait or are out, oldest first. It
// visits each key. It is meant for diagnosis, not for every event.
func (c *Collection[T]) QueueStates(limit int) []QueueState {
	c.lock()
	defer c.mu.Unlock()
	var states []QueueState
	for k := range c.keys.all() {
		for i, b := range k.backlogs() {
			s := QueueState{Key: k.key, Events: len(b.events), Age: now() - b.since, Out: i == 0, Failures: int(k.failures), Err: k.err}
			if !s.Out && k.heapIndex >= 0 {
				s.RetryIn = max(k.due-now(), 0)
			}
			states = insertOldest(states, s, limit)
		}
	}
	return states
}

// insertOldest inserts a state into the limit oldest states, oldest first. It must not be inlined
// into generic code, because the compiler would then compile it again for each type.
//
//go:noinline
func insertOldest(states []QueueState, s QueueState, limit int) []QueueState {
	i := len(states)
	for i > 0 && states[i-1].Age < s.Age {
		i--
	}
	if i >= limit {
		return states
	}
	return slices.Insert(states[:min(len(states), limit-1)], i, s)
}

// backlogs iterates over the queue that is out, as number 0, and over the waiting events, as number
// 1.
func (k *keyState[T]) backlogs() iter.Seq2[int, *backlog[T]] {
	return func(yield func(int, *backlog[T]) bool) {
		if (k.out == nil || yield(0, &k.out.backlog)) && k.waits() {
			yield(1, &k.waiting)
		}
	}
}
