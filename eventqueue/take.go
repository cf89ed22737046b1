package eventqueue

import (
	"context"
	"time"
)

// Take waits for a queue and hands it out. Settle it by [Queue.Done], [Queue.Fail] or
// [Queue.PutBack]; a loop over [Collection.Queues] settles by itself. Take returns the cause of ctx
// once ctx has ended, and [ErrClosed] once the collection is closed.
func (c *Collection[T]) Take(ctx context.Context) (*Queue[T], error) {
	return c.take(ctx, nil, false)
}

// take acknowledges the queue last, if there is one, and takes the next. A loop does both in one
// call, so that it takes the lock half as often. If reuse is true, no consumer has last any more,
// and take reuses its memory.
func (c *Collection[T]) take(ctx context.Context, last *Queue[T], reuse bool) (*Queue[T], error) {
	if last != nil && c.observer != nil {
		c.settleAndTell(last, outcome{how: done}, reuse)
		last = nil
	}
	waited := false
	for {
		// Check ctx first: select picks at random, and after the end of ctx take must not hand out
		// a queue.
		if ctx.Err() != nil {
			if last != nil {
				last.Done()
			}
			if waited {
				c.stopWaiting()
			}
			return nil, context.Cause(ctx)
		}
		if q, err := c.takeOrWait(last, reuse, waited); q != nil || err != nil {
			if q != nil && c.observer != nil {
				c.tellTaken(q)
			}
			return q, err
		}
		last, waited = nil, true
		select {
		case <-c.wake:
		case <-ctx.Done():
		case <-c.closed:
		}
	}
}

// takeOrWait takes a queue. If none is ready, it registers the caller as a waiter. The argument
// waited is true if the caller was already registered.
func (c *Collection[T]) takeOrWait(last *Queue[T], reuse, waited bool) (*Queue[T], error) {
	c.lock()
	defer c.mu.Unlock()
	if last != nil {
		c.settleLocked(last, outcome{how: done})
		if reuse {
			c.unused.put(last)
		}
	}
	if waited {
		c.waiters.Add(-1)
	}
	for {
		q, err := c.takeLocked()
		if q != nil || err != nil {
			return q, err
		}
		c.waiters.Add(1)
		// A writer that left an event before this line did not see the waiter, so look again.
		if !c.inbox.nonEmpty.Load() {
			c.restLocked()
			return nil, nil
		}
		c.waiters.Add(-1)
		c.sortInLocked()
	}
}

// idleAfter is the idle time after which the collection releases the memory for many events.
const idleAfter = time.Second

// restLocked starts the timer that releases unused memory, if there is much of it.
func (c *Collection[T]) restLocked() {
	much := cap(c.inbox.spare) > inboxIdle || c.unused.len > inboxIdle || c.spare.len > 2*linesAtOnce
	if much && c.tidy == nil {
		c.tidy = time.AfterFunc(idleAfter, c.tidyUp)
	}
}

// tidyUp releases unused memory if a consumer waits. If all consumers are busy, it does nothing;
// the next consumer that waits starts the timer again.
func (c *Collection[T]) tidyUp() {
	c.lock()
	defer c.mu.Unlock()
	c.tidy = nil
	if c.isClosed() || c.waiters.Load() == 0 {
		return
	}
	c.inbox.shrink()
	c.unused.shrink()
	c.spare.drop()
}

// stopWaiting removes the caller from the waiters.
func (c *Collection[T]) stopWaiting() {
	c.lock()
	defer c.mu.Unlock()
	c.waiters.Add(-1)
	c.signal() // the token may have been meant for another waiter
}

func (c *Collection[T]) takeLocked() (*Queue[T], error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	l := c.nextLocked()
	if l == nil {
		return nil, nil
	}
	q := l.waiting
	l.unlink()
	l.waiting, l.out = nil, q
	q.attempt = int32(l.failures + 1)
	if l.failures > 0 {
		c.counters.retries++
	}
	c.counters.waiting--
	c.counters.out++
	if c.waiters.Load() > 0 && (c.firstFreeLocked(&c.ready[0]) != nil || c.firstFreeLocked(&c.ready[1]) != nil) {
		c.signal()
	}
	return q, nil
}

// signal wakes one waiter.
func (c *Collection[T]) signal() {
	if c.waiters.Load() == 0 {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
