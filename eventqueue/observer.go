package eventqueue

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Observer receives a call for each queue that is handed out or settled, for metrics and traces.
// The goroutine that takes or settles the queue calls it, so calls run concurrently. A call comes
// after the fact: the call for a later event of a key may come before an earlier one. No lock is
// held. The methods must be quick and must not panic.
type Observer interface {
	// Taken is called after the collection took a queue and before a consumer gets it.
	Taken(Taking)
	// Settled is called after a queue was settled, for the first call that settles it. After the
	// collection is closed, Settled is no longer called.
	Settled(Settling)
}

// Taking describes a queue that the collection handed out.
type Taking struct {
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

// Settling describes a queue that a consumer settled.
type Settling struct {
	Key store.Key
	// Events is the number of events that were handed out.
	Events int
	Result Result
	// Err is the error of a failed or given-up queue, and nil otherwise.
	Err error
}

// Result is the way in which a queue was settled.
type Result uint8

const (
	// Returned is the result of [Queue.PutBack], break and return.
	Returned Result = iota
	// Acknowledged is the result of [Queue.Done], and of every other settlement that leaves no
	// events.
	Acknowledged
	// Failed is the result of [Queue.Fail]: the remaining events are retried after a back-off.
	Failed
	// GivenUp is the result of a [Permanent] error.
	GivenUp
)

// String returns "Returned", "Acknowledged", "Failed" or "GivenUp".
func (r Result) String() string {
	switch r {
	case Returned:
		return "Returned"
	case Acknowledged:
		return "Acknowledged"
	case Failed:
		return "Failed"
	case GivenUp:
		return "GivenUp"
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// WithObserver adds an observer of the queues that the collection hands out and that consumers
// settle. Several observers are all called. A nil interface removes the earlier ones and is the
// default, which costs nothing. A nil pointer inside the interface counts as an observer.
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) { o.observer = withObserver(o.observer, observer) })
}

// tellTaken calls the observer for a queue that was handed out.
func (c *Collection[T]) tellTaken(q *Queue[T]) {
	c.observer.Taken(Taking{
		Key: q.Key(), Waited: now() - q.since, Events: len(q.events), Merged: int(q.merged), Attempt: q.Attempt(),
	})
}

// settling describes a queue that is settled with an outcome.
func (q *Queue[T]) settling(o outcome) Settling {
	s := Settling{Key: q.Key(), Events: len(q.events), Result: q.resultOf(o)}
	if s.Result == Failed || s.Result == GivenUp {
		s.Err = o.err
	}
	return s
}

// resultOf returns the Result of settling a queue with an outcome.
func (q *Queue[T]) resultOf(o outcome) Result {
	switch {
	case o.how == gaveUp:
		return GivenUp
	case len(q.left(o)) == 0:
		return Acknowledged
	case o.how == failed:
		return Failed
	}
	return Returned
}
