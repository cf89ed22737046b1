package eventqueue

import (
	"errors"
	"time"
)

// settle takes a queue back from a consumer.
func (c *Collection[T]) settle(q *Queue[T], o outcome) {
	if c.observer != nil {
		c.settleAndTell(q, o, false)
		return
	}
	c.lock()
	defer c.mu.Unlock()
	c.settleLocked(q, o)
}

// settleLocked takes a queue back. Only the first call for a queue counts.
func (c *Collection[T]) settleLocked(q *Queue[T], o outcome) {
	if q.settled || c.isClosed() {
		q.settled = true
		return
	}
	q.settled = true
	l := q.line
	q.line = nil
	c.counters.out--
	c.counters.events -= len(q.events)
	c.countLocked(o)

	if rest := q.left(o); len(rest) > 0 {
		c.putBackLocked(l, q, rest)
	} else {
		c.ages.remove(q)
		o.how = done
	}
	l.out = nil // only now: a merge must not make the collection forget the key
	if o.how == done || o.how == gaveUp {
		l.failures, l.err = 0, nil
	}
	if q.initial {
		if o.how == putBack && l.waiting != nil {
			l.waiting.initial = true
		} else {
			c.initialSettledLocked()
		}
	}
	c.queueUpLocked(l, o)
	c.signal()
	c.wakeDrainersLocked()
}

// left returns the events that must come again after a queue was settled.
func (q *Queue[T]) left(o outcome) []record[T] {
	if o.how == done || o.how == gaveUp && q.each != gaveUpOne {
		return nil
	}
	return q.events[q.acknowledged:]
}

// countLocked counts permanent errors and panics of handlers.
func (c *Collection[T]) countLocked(o outcome) {
	if o.how == gaveUp {
		c.counters.givenUp++
	}
	if o.panicked {
		c.counters.panics++
	}
}

// isPanic reports whether an error comes from a panic or Goexit. It is called without a lock,
// because the error's methods Is, As and Unwrap are user code.
func isPanic(err error) bool {
	_, ok := errors.AsType[*PanicError](err)
	return ok || errors.Is(err, ErrAbandoned)
}

// putBackLocked makes the remaining events of a queue wait again, merged with the events that came
// meanwhile. If all of them cancel each other, no event waits.
func (c *Collection[T]) putBackLocked(l *line[T], q *Queue[T], rest []record[T]) {
	// Make a new queue: the holder may still read the old one.
	whole := q.handedOverWhole()
	first := rest[0].waitingAgain(whole || rest[0].wasRead())
	again := c.newQueue(&first, q.since)
	for i := range rest[1:] {
		again.events = append(again.events, rest[1+i].waitingAgain(whole || rest[1+i].wasRead()))
	}
	again.line, again.live, again.merged = l, q.live, q.merged
	c.ages.replace(q, again)
	news := l.waiting
	l.waiting = again
	c.counters.events += len(again.events)
	if news == nil {
		c.counters.waiting++
		return
	}
	c.ages.remove(news)
	c.counters.events -= len(news.events)
	again.initial = news.initial
	again.live = again.live || news.live
	again.merged += news.merged
	events, came, dropped := again.events, len(again.events)+len(news.events), 0
	for i := range news.events {
		var n int
		events, n = add(c.policy(), events, news.events[i])
		dropped += n
	}
	c.resizedLocked(l, again, events, came, dropped)
}

// queueUpLocked puts a key that is back in its place in a ring or in the heap of delayed keys.
func (c *Collection[T]) queueUpLocked(l *line[T], o outcome) {
	if l.waiting == nil {
		c.forgetLocked(l)
		return
	}
	c.returnLocked(l)
	switch {
	case o.how == failed:
		c.delayLocked(l, o.err)
	case o.how == done || o.how == gaveUp:
		c.readyLocked(l) // behind the others, like a failed key
	default:
		l.unlink()
		l.pushFront(c.ringOf(l.waiting))
		l.passed = 1 // earlier than every turn: see pushBy
	}
}

// delayLocked makes a failed key wait for its back-off, unless the key is already ready.
func (c *Collection[T]) delayLocked(l *line[T], err error) {
	l.failures++
	l.err = err
	if l.linked() {
		return
	}
	l.due = now() + c.backoff.delay(l.failures)
	c.delayed.add(l)
	c.setTimerLocked()
}

// setTimerLocked makes the timer fire when the first delayed key is due.
func (c *Collection[T]) setTimerLocked() {
	if len(c.delayed) == 0 {
		return
	}
	wait := c.delayed[0].due - now()
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.release)
	} else {
		c.timer.Reset(wait)
	}
}

// release makes the keys whose back-off is over ready.
func (c *Collection[T]) release() {
	c.lock()
	defer c.mu.Unlock()
	over := now()
	for len(c.delayed) > 0 && c.delayed[0].due <= over {
		l := c.delayed[0]
		c.delayed.remove(l)
		c.readyLocked(l)
	}
	c.setTimerLocked()
	c.signal()
}
