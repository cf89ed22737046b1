package eventqueue

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// QueueState says how the queue of one object is doing: see [Collection.QueueStates].
type QueueState struct {
	Key store.Key
	// Events is the number of events in it. Those that its holder is through with
	// count until it is settled.
	Events int
	// Age is the time since the first of them came, be it merged with later ones.
	Age time.Duration
	// Out is true if somebody holds the queue. An object can have a second one then,
	// of what happened since.
	Out bool
	// Failures counts how often the object was handled in vain since that went well,
	// and Err is what came of it last; nil if nothing failed, or only a loop was left.
	Failures int
	Err      error
	// RetryIn is what is left of the back-off; 0 if there is none.
	RetryIn time.Duration
}

// QueueStates returns the state of the queues that wait or are out, the oldest first,
// but of no more than limit. It takes time in proportion to those that it returns, and
// is meant for people who look, not for every event.
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
