package eventqueue

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Observer is told how long queues waited and what became of them: for metrics and traces.
// Its methods are called by whoever takes and settles queues, from as many goroutines at
// once, and after the fact: of two that settle and take a queue of one key, the second may
// be heard of first. No lock is held. They must be quick, and must not panic.
type Observer interface {
	// Taken is called when a queue was handed out, before anybody has it.
	Taken(Taking)
	// Settled is called when a queue that was handed out is back, in the way that
	// counts: the first. Of a closed collection nothing is told.
	Settled(Settling)
}

// Taking is that a queue was handed out.
type Taking struct {
	Key store.Key
	// Waited is how long it has been since the first of its events came: of those that
	// were handed out before, since they came, and not since they are back.
	Waited time.Duration
	// Events is how many events are in the queue, and Merged how many others were merged
	// into them since they came. What was merged away as a whole is never handed out, and is
	// counted in [Stats] alone.
	Events, Merged int
	// Attempt is one more than the number of failures of the key: see [Queue.Attempt].
	Attempt int
}

// Settling is that a queue is back.
type Settling struct {
	Key store.Key
	// Events is how many events were handed out.
	Events int
	Result Result
	// Err is why it failed or was given up; nil if it did not.
	Err error
}

// Result says how a queue was settled.
type Result uint8

const (
	// Returned is the result of [Queue.PutBack], break and return.
	Returned Result = iota
	// Acknowledged is the result of [Queue.Done], and of every other end that leaves
	// nothing to come again.
	Acknowledged
	// Failed is the result of [Queue.Fail]: what is left comes again after a back-off.
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

// WithObserver sets who is told of the queues that are handed out and come back. The
// default, and nil, is nobody, and costs nothing; a nil pointer is somebody. Given more than
// once, as for metrics and traces, all are told.
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) { o.observer = withObserver(o.observer, observer) })
}

// tellTaken tells the observer of a queue that was handed out.
func (c *Collection[T]) tellTaken(q *Queue[T]) {
	c.observer.Taken(Taking{
		Key: q.Key(), Waited: now() - q.since, Events: len(q.events), Merged: int(q.merged), Attempt: q.Attempt(),
	})
}

// settleAndTell takes a queue back, and tells the observer. If reuse is true, nobody else
// has the queue, and its memory is used again.
func (c *Collection[T]) settleAndTell(q *Queue[T], o outcome, reuse bool) {
	s := Settling{Key: q.Key(), Events: len(q.events), Result: q.resultOf(o)}
	if s.Result == Failed || s.Result == GivenUp {
		s.Err = o.err
	}
	if c.settleFirst(q, o, reuse) {
		c.observer.Settled(s)
	}
}

// settleFirst takes a queue back, and reports whether that counts.
func (c *Collection[T]) settleFirst(q *Queue[T], o outcome, reuse bool) bool {
	c.lock()
	defer c.mu.Unlock()
	counts := !q.settled && !c.isClosed()
	c.settleLocked(q, o)
	if reuse {
		c.unused.put(q)
	}
	return counts
}

// resultOf says what settling a queue in some way comes to.
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
