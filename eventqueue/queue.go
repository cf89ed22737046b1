package eventqueue

import (
	"context"
	"iter"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Queue is everything that happened to one object since it was last looked at,
// oldest event first. It holds at least one event, and never changes: what
// happens from now on comes in the key's next Queue.
//
// Queues come from a [Collection], and go back to it by being settled: see the
// package documentation. Methods are safe for concurrent use, but for
// [Queue.Each].
type Queue[T any] struct {
	of     *Collection[T]
	line   *line[T]
	events []record[T]
	// first is where events begins, so that the usual queue of one event is one
	// allocation.
	first [1]record[T]

	// since is when the oldest event came: see now. older and newer link the queues that were not settled, for the
	// collection's statistics. Guarded by of.mu.
	since        time.Duration
	older, newer *Queue[T]

	attempt int32

	// acknowledged is the number of leading events that Each is through with.
	acknowledged int32
	// merged is how many events were merged into those that are here. Guarded by of.mu
	// until the queue is out.
	merged int32
	// each says how Each or a loop over single events went.
	each progress

	// live is true if some event is news. Guarded by of.mu.
	live bool
	// initial is true if Synced waits for this queue to be settled. Guarded by
	// of.mu.
	initial bool
	// settled is true once the queue is back. Guarded by of.mu.
	settled bool
}

// Key returns the key of the object.
func (q *Queue[T]) Key() store.Key { return q.events[0].Key }

// Len returns the number of events.
func (q *Queue[T]) Len() int { return len(q.events) }

// Events iterates over the events, oldest first.
func (q *Queue[T]) Events() iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		for i := range q.events {
			if !yield(q.events[i].handOver()) {
				return
			}
		}
	}
}

// Oldest returns the first event, whose Prior is the object that was last
// acknowledged.
func (q *Queue[T]) Oldest() Event[T] { return q.events[0].handOver() }

// Newest returns the last event.
func (q *Queue[T]) Newest() Event[T] { return q.events[len(q.events)-1].handOver() }

// Attempt returns one more than the number of failures of the key since it was last
// acknowledged: 1 unless it failed before.
func (q *Queue[T]) Attempt() int { return int(q.attempt) }

// Done acknowledges the queue. The end of a loop's body does it as well.
func (q *Queue[T]) Done() { q.of.settle(q, outcome{how: done}) }

// Fail puts the queue back, to be handed out again after a back-off, together
// with what happened meanwhile. Events that [Queue.Each] was through with do not
// come again: if it was through with all, nothing is left to fail. The error is what
// [DrainError] reports if there is no next time.
//
// If the error is [Permanent], the queue does not come again: all of it, or of a
// queue that Each worked on, the events up to the one that failed.
func (q *Queue[T]) Fail(err error) {
	if IsPermanent(err) {
		q.of.settle(q, outcome{how: gaveUp, err: err, panicked: isPanic(err)})
		return
	}
	q.of.settle(q, outcome{how: failed, err: err, panicked: isPanic(err)})
}

// PutBack puts the queue back in front of all others, as if it had not been handed
// out: it does not count as a failure. A loop's body does it by break or return.
// Events that [Queue.Each] was through with do not come again.
func (q *Queue[T]) PutBack() { q.of.settle(q, outcome{}) }

// Each calls fn for each event, oldest first, and acknowledges the event when fn
// returned nil. It stops at the first error and returns it: pass it to Fail, or
// return it from a handler, and the event comes again with the later ones; if the
// error is [Permanent], only the later ones do. It stops between two events when ctx
// ends, and returns its cause, or when the collection is closed, and returns
// [ErrClosed]. Once it is through with all events, nothing is left to come again: an
// error that a handler returns after that acknowledges the queue, as Fail does.
func (q *Queue[T]) Each(ctx context.Context, fn func(Event[T]) error) error {
	q.each = max(q.each, begun)
	for int(q.acknowledged) < len(q.events) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if q.of.isClosed() {
			return ErrClosed
		}
		if err := fn(q.events[q.acknowledged].handOver()); err != nil {
			if IsPermanent(err) {
				q.acknowledged++
				q.each = gaveUpOne
			}
			return err
		}
		q.acknowledged++
	}
	return nil
}

// progress says how single events of a queue are handed over.
type progress uint8

const (
	notBegun progress = iota
	begun
	gaveUpOne // Each ended with a Permanent error, and is through with its event
)

// handedOverWhole reports whether the holder took no single event. It had the queue,
// and may have acted on the object by its key.
func (q *Queue[T]) handedOverWhole() bool {
	if q.each != notBegun {
		return false
	}
	for i := range q.events {
		if q.events[i].wasRead() {
			return false
		}
	}
	return true
}

// outcome is how a queue was settled. The zero outcome puts it back in front.
type outcome struct {
	how      way
	err      error
	panicked bool // err comes from a panic or Goexit
}

type way uint8

const (
	putBack way = iota
	done
	failed
	gaveUp
)
