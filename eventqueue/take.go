package eventqueue

import (
	"context"
	"errors"
	"iter"
	"runtime"
)

// Take waits for a queue and hands it out. Settle it by [Queue.Done], [Queue.Fail] or
// [Queue.Release]; a loop over [Collection.Queues] settles by itself. Take returns [ErrClosed] once
// the collection is closed. Otherwise it returns the cause of ctx once ctx has ended.
func (c *Collection[T]) Take(ctx context.Context) (*Queue[T], error) {
	q := new(Queue[T])
	if err := c.take(ctx, q, false); err != nil {
		return nil, err
	}
	return q, nil
}

// Queues iterates over the queues of events as they become ready, until ctx ends or the collection
// is closed. The end of the loop's body acknowledges the queue, unless the body settled it. The
// package documentation lists every other way to leave the body. Several goroutines may range over
// the queues of one collection, also over the same sequence; each queue goes to one of them.
func (c *Collection[T]) Queues(ctx context.Context) iter.Seq[*Queue[T]] {
	return c.handOutAll(ctx, false)
}

// Consume iterates over single events, until ctx ends or the collection is closed. The end of the
// loop's body acknowledges the event. After break, return or a panic in the body, that event comes
// again, together with the later events of its key.
func (c *Collection[T]) Consume(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		one := func(event Event[T]) error {
			if !yield(event) {
				return errBroken
			}
			return nil
		}
		for q := range c.handOutAll(ctx, true) {
			if q.Each(ctx, one) != nil {
				return // this puts the rest back
			}
		}
	}
}

// errBroken is the error of an event at which a loop ended.
var errBroken = errors.New("loop ended")

// handOutAll implements Queues. If reuse is true, the body keeps no queue, and each queue has the
// memory of the queue before it.
func (c *Collection[T]) handOutAll(ctx context.Context, reuse bool) iter.Seq[*Queue[T]] {
	return func(yield func(*Queue[T]) bool) {
		defer context.AfterFunc(ctx, c.wakeAll)()
		q := new(Queue[T])
		for c.take(ctx, q, true) == nil && handOut(q, yield) {
			if reuse {
				*q = Queue[T]{} // settled: the collection does not know it any more
			} else {
				q = new(Queue[T])
			}
		}
	}
}

// handOut runs a loop's body on a queue, settles the queue by the way in which the body ended, and
// reports whether the loop goes on.
func handOut[T any](q *Queue[T], yield func(*Queue[T]) bool) (more bool) {
	returned := false
	// Without recover: the panic goes on, with its stack.
	defer func() {
		switch {
		case !returned:
			q.Fail(ErrAbandoned)
		case !more:
			q.Release()
		case !q.held:
			q.Done()
		}
	}()
	more = yield(q)
	returned = true
	return more
}

// take waits for a queue and fills an empty one. If watched is true, the end of ctx calls wakeAll.
func (c *Collection[T]) take(ctx context.Context, q *Queue[T], watched bool) error {
	c.lock()
	err := c.takeLocked(ctx, q, watched)
	c.mu.Unlock()
	if err == nil && c.observer != nil {
		c.observe(q)
	}
	return err
}

func (c *Collection[T]) takeLocked(ctx context.Context, q *Queue[T], watched bool) error {
	for lingered := false; ; c.queueBufferedLocked() {
		if c.IsClosed() {
			return ErrClosed
		}
		if ctx.Err() != nil {
			c.signalLocked() // the signal may have been meant for another consumer
			return context.Cause(ctx)
		}
		if k := c.nextLocked(); k != nil {
			c.handOutLocked(k, q)
			return nil
		}
		switch {
		case !lingered:
			lingered = true
			c.lingerLocked()
		case !watched:
			watched = true
			c.mu.Unlock()
			defer context.AfterFunc(ctx, c.wakeAll)()
			c.mu.Lock()
		default:
			c.sleepLocked()
		}
	}
}

// handOutLocked moves the waiting events of a key to a queue.
func (c *Collection[T]) handOutLocked(k *keyState[T], q *Queue[T]) {
	k.unlink()
	k.waiting.moveTo(&q.backlog)
	q.of, q.state = c, k
	k.out = q
	q.attempt = k.failures + 1
	if k.failures > 0 {
		c.counters.Retries++
		q.backoffEnd = k.backoffEnd
		k.hastened = k.hastened || now() < k.backoffEnd
	}
	c.counters.Waiting--
	c.counters.InFlight++
	if c.sleeping.Load() > 0 && (c.firstFreeLocked(&c.ready[0]) != nil || c.firstFreeLocked(&c.ready[1]) != nil) {
		c.signalLocked()
	}
}

// maxPatience is the largest number of times that a consumer without a queue yields the CPU before
// it sleeps. To wake a goroutine takes longer. Where yielding does not help, as with many handlers,
// the consumer sleeps at once, and yields only every 16th time.
const maxPatience = 16

// lingerLocked yields until an event comes, for a short time. It yields longer after that helped,
// and for a shorter time after it did not help.
func (c *Collection[T]) lingerLocked() {
	patience := c.patience
	if patience == 0 {
		if c.naps++; c.naps%16 != 0 {
			return
		}
		patience = 1 // try again
	}
	c.mu.Unlock()
	for left := patience; left > 0 && c.buffer.empty(); left-- {
		runtime.Gosched()
	}
	c.mu.Lock()
	if !c.buffer.empty() {
		c.patience = min(2*patience, maxPatience)
	} else {
		c.patience = patience / 2
	}
}

// sleepLocked waits for a signal. A writer that filled the buffer before the first line did not see
// the sleeper, so sleepLocked looks again. A later writer locks the collection to signal, and so
// waits until the sleeper waits.
func (c *Collection[T]) sleepLocked() {
	c.sleeping.Add(1)
	if !c.buffer.empty() {
		c.sleeping.Add(-1)
		return
	}
	c.wake.Wait()
}

// signalLocked wakes one consumer, if one sleeps.
func (c *Collection[T]) signalLocked() {
	if c.sleeping.Load() > 0 {
		c.sleeping.Add(-1)
		c.wake.Signal()
	}
}

// wakeAll wakes all consumers, so that each looks at its context.
func (c *Collection[T]) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeping.Store(0)
	c.wake.Broadcast()
}
