package eventqueue

import (
	"errors"
	"slices"
	"time"
)

// outcome is the way in which a queue was settled. The zero outcome puts it back in front.
type outcome struct {
	how      way
	err      error
	panicked bool          // err comes from a panic or Goexit
	wait     time.Duration // the back-off, if it was reported; else 0
	least    time.Duration // what a server asked for with err; else 0
}

type way uint8

const (
	requeued way = iota
	done
	failed
	gaveUp
)

// settle takes a queue back from a consumer. Only the first call for a queue counts.
func (c *Collection[T]) settle(q *Queue[T], o outcome) {
	c.lock()
	defer c.mu.Unlock()
	counts := !q.settled && !c.IsClosed()
	q.settled = true
	switch {
	case counts:
		c.settleLocked(q, o)
	case q.state != nil: // Close has begun and waits for mu; it must not touch q any more
		q.state.out, q.state = nil, nil
	}
}

func (c *Collection[T]) settleLocked(q *Queue[T], o outcome) {
	k := q.state
	q.state = nil
	c.counters.InFlight--
	c.counters.Events -= len(q.events)
	if o.how == gaveUp {
		c.counters.GivenUp++
	}
	if o.panicked {
		c.counters.Panics++
	}
	if rest := q.left(o); len(rest) > 0 {
		c.requeueLocked(k, q, rest)
	} else {
		o.how = done
	}
	k.out = nil // only now: a merge must not make the collection forget the key
	if o.how == done || o.how == gaveUp {
		k.failures, k.err, k.backoffEnd, k.hastened = 0, nil, 0, false
	}
	if q.initial {
		if o.how == requeued && k.waits() {
			k.waiting.initial = true
		} else {
			c.initialSettledLocked()
		}
	}
	c.queueUpLocked(k, o)
	c.wakeDrainersLocked()
}

// left returns the events that must come again after a queue was settled.
func (q *Queue[T]) left(o outcome) []record[T] {
	if o.how == done || o.how == gaveUp && q.each != gaveUpOne {
		return nil
	}
	return q.events[q.acknowledged:]
}

// isPanic reports whether an error comes from a panic or Goexit. It is called without a lock,
// because the error's methods Is, As and Unwrap are user code.
func isPanic(err error) bool {
	_, ok := errors.AsType[*PanicError](err)
	return ok || errors.Is(err, ErrAbandoned)
}

// requeueLocked makes the remaining events of a queue wait again, merged with the events that came
// meanwhile. If all of them cancel each other, no event waits.
func (c *Collection[T]) requeueLocked(k *keyState[T], q *Queue[T], rest []record[T]) {
	b := &k.waiting
	news := slices.Clone(b.events)
	if len(news) == 0 {
		c.counters.Waiting++
	}
	// Copy the events: the holder may still read the queue.
	whole := q.handedOverWhole()
	b.first[0] = rest[0].waitingAgain(whole || rest[0].wasRead())
	events := b.first[:]
	for i := range rest[1:] {
		events = append(events, rest[1+i].waitingAgain(whole || rest[1+i].wasRead()))
	}
	b.since, b.live, b.merged = q.since, b.live || q.live, b.merged+q.merged
	came, dropped := len(events)+len(news), 0
	for i := range news {
		var n int
		events, n = add(c.policy(), events, news[i])
		dropped += n
	}
	c.resizedLocked(k, events, len(news), came, dropped)
}

// queueUpLocked puts a key that is back in its place in a ring or in the heap of delayed keys.
func (c *Collection[T]) queueUpLocked(k *keyState[T], o outcome) {
	if !k.waits() {
		c.forgetLocked(k)
		return
	}
	if o.how == failed {
		c.backOffLocked(k, o)
		return
	}
	c.returnLocked(k)
	switch {
	case o.how == done || o.how == gaveUp:
		if k.heapIndex < 0 { // else AddAfter delayed the key
			c.readyLocked(k) // behind the others, like a failed key
		}
	default:
		c.delayed.remove(k)
		k.unlink()
		ring := c.ringOf(k)
		k.link(ring.next, ring)
		k.place.passed = 1 // earlier than every turn: see returnLocked
	}
	c.signalLocked()
}
