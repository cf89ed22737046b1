package eventqueue

import (
	"context"
	"iter"
)

// Queues iterates over the queues of events as they become ready, until ctx ends or the collection
// is closed. The end of the loop's body acknowledges the queue, unless the body settled it. The
// package documentation lists every other way to leave the body. Several goroutines may range over
// the queues of one collection, also over the same sequence; each queue goes to one of them.
func (c *Collection[T]) Queues(ctx context.Context) iter.Seq[*Queue[T]] {
	return c.handOutAll(ctx, false)
}

// handOutAll implements Queues. If reuse is true, the body keeps no queue, and the memory of
// settled queues is used again.
func (c *Collection[T]) handOutAll(ctx context.Context, reuse bool) iter.Seq[*Queue[T]] {
	return func(yield func(*Queue[T]) bool) {
		var last *Queue[T]
		for {
			q, err := c.take(ctx, last, reuse)
			if err != nil || !handOut(q, yield) {
				return
			}
			last = q
		}
	}
}

// handOut runs a loop's body on a queue and reports whether the loop goes on. If so, the caller
// acknowledges the queue. If not, handOut settles the queue by the way in which the body ended.
func handOut[T any](q *Queue[T], yield func(*Queue[T]) bool) (more bool) {
	returned := false
	// Without recover: the panic goes on, with its stack.
	defer func() {
		switch {
		case !returned:
			q.Fail(ErrAbandoned)
		case !more:
			q.PutBack()
		}
	}()
	more = yield(q)
	returned = true
	return more
}

// Events iterates over single events, until ctx ends or the collection is closed. The end of the
// loop's body acknowledges the event. After break, return or a panic in the body, that event comes
// again, together with the later events of its key.
func (c *Collection[T]) Events(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		for q := range c.handOutAll(ctx, true) {
			q.each = begun
			for ctx.Err() == nil && int(q.acknowledged) < len(q.events) && !c.isClosed() {
				if !yield(q.events[q.acknowledged].handOver()) {
					return
				}
				q.acknowledged++
			}
			if int(q.acknowledged) < len(q.events) {
				return // this puts the rest back
			}
		}
	}
}
