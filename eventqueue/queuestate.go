package eventqueue

import (
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

// QueueStates returns the states of at most limit queues that wait or are out, oldest first. Its
// time grows with the number of returned states. It is meant for diagnosis, not for every event.
func (c *Collection[T]) QueueStates(limit int) []QueueState {
	c.lock()
	defer c.mu.Unlock()
	var states []QueueState
	for q := c.ages.oldest; q != nil && len(states) < limit; q = q.newer {
		l := q.line
		s := QueueState{Key: l.key, Events: len(q.events), Age: now() - q.since, Out: l.out == q, Failures: l.failures, Err: l.err}
		if !s.Out && l.heapIndex >= 0 {
			s.RetryIn = max(l.due-now(), 0)
		}
		states = append(states, s)
	}
	return states
}
