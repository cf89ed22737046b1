package eventqueue

import (
	"context"
	"time"
)

// Take waits for a queue and hands it out. Settle it by [Queue.Done], [Queue.Fail] or
// [Queue.PutBack]; ranging over [Collection.Queues] does so by itself. Take returns
// the cause of ctx once that has ended, and [ErrClosed] once the collection is
// closed.
func (c *Collection[T]) Take(ctx context.Context) (*Queue[T], error) {
	return c.take(ctx, nil, false)
}

// take acknowledges a queue, if there is one, and takes the next. A loop does both at
// once, so that it takes the lock half as often. If reuse is true, nobody else has the
// last one, and its memory is used again.
func (c *Collection[T]) take(ctx context.Context, last *Queue[T], reuse bool) (*Queue[T], error) {
	if last != nil && c.observer != nil {
		c.settleAndTell(last, outcome{how: done}, reuse)
		last = nil
	}
	waited := false
	for {
		// Checked first, and not left to select, which picks at random: after
		// the end nothing is handed out any more.
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

// takeOrWait takes a queue or, if none is ready, says that the caller waits for one.
// waited is true if it said so before.
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
		// Whoever left an event before that does not know that somebody waits.
		if !c.inbox.nonEmpty.Load() {
			c.restLocked()
			return nil, nil
		}
		c.waiters.Add(-1)
		c.sortInLocked()
	}
}

// idleAfter is after what time memory for many events is given back.
const idleAfter = time.Second

// restLocked sees to it that memory that is not needed while nothing happens is given
// back, if nothing happens for a while.
func (c *Collection[T]) restLocked() {
	much := cap(c.inbox.spare) > inboxIdle || c.unused.len > inboxIdle || c.spare.len > 2*linesAtOnce
	if much && c.tidy == nil {
		c.tidy = time.AfterFunc(idleAfter, c.tidyUp)
	}
}

// tidyUp gives memory back, unless somebody is busy: who waits next comes back to it.
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

// stopWaiting takes back that the caller waits.
func (c *Collection[T]) stopWaiting() {
	c.lock()
	defer c.mu.Unlock()
	c.waiters.Add(-1)
	c.signal() // the token may have been meant for somebody else
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

// signal wakes one of those who wait.
func (c *Collection[T]) signal() {
	if c.waiters.Load() == 0 {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
