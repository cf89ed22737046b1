package eventqueue

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
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
	return c.deliverAll(ctx, newQueues)
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
		for q := range c.deliverAll(ctx, oneQueue) {
			if q.Each(ctx, one) != nil {
				return // this puts the rest back
			}
		}
	}
}

// errBroken is the error of an event at which a loop ended.
var errBroken = errors.New("loop ended")

// memory says where the queues of a loop live.
type memory bool

const (
	newQueues memory = false // the body may keep them
	oneQueue  memory = true  // each has the memory of the one before it
)

// deliverAll implements Queues. The loop's body settles each queue by the way in which it ends.
func (c *Collection[T]) deliverAll(ctx context.Context, in memory) iter.Seq[*Queue[T]] {
	return func(yield func(*Queue[T]) bool) {
		defer context.AfterFunc(ctx, c.wakeAll)()
		const watched = true
		q := new(Queue[T])
		for c.take(ctx, q, watched) == nil && q.runBody(yield) {
			if in == oneQueue {
				*q = Queue[T]{} // settled: the collection does not know it any more
			} else {
				q = new(Queue[T])
			}
		}
	}
}

// runBody runs a loop's body on a queue, settles the queue, and reports whether the loop goes on.
func (q *Queue[T]) runBody(yield func(*Queue[T]) bool) (more bool) {
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

// take waits for a queue and fills an empty one. watched says that ctx already has an AfterFunc that
// calls wakeAll, so that its end wakes the consumer.
func (c *Collection[T]) take(ctx context.Context, q *Queue[T], watched bool) error {
	c.lockAndQueue()
	err := c.takeLocked(ctx, q, watched)
	c.mu.Unlock()
	if err == nil && c.observer != nil {
		c.observer(TakeInfo{
			Key: q.Key(), Waited: now() - q.since, Events: len(q.events), Merged: int(q.merged), Attempt: q.Attempt(),
		})
	}
	return err
}

// takeLocked is take. It yields before it sleeps, and registers the AfterFunc of a ctx without one only
// then, because that needs memory.
func (c *Collection[T]) takeLocked(ctx context.Context, q *Queue[T], watched bool) error {
	for yielded := false; ; c.queueBufferedLocked() {
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
		case !yielded:
			yielded = true
			c.yieldLocked()
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

// share is the interval of the second ring: while both rings have keys, one turn in share goes to
// the keys without live events.
const share = 8

// nextLocked returns the key whose turn it is, or nil.
func (c *Collection[T]) nextLocked() *keyState[T] {
	first, second := c.firstFreeLocked(&c.ready[0]), c.firstFreeLocked(&c.ready[1])
	switch {
	case second == nil:
		return first
	case first == nil || c.turns == share-1:
		c.turns = 0
		return second
	default:
		c.turns++
		return first
	}
}

// firstFreeLocked returns the first key of a ring that is not out, or nil. It removes the keys
// before it from the ring until they are back. Each key is thus passed over once, however many are
// out.
func (c *Collection[T]) firstFreeLocked(ring *turn[T]) *keyState[T] {
	for ring.next != ring {
		k := ring.next.key
		if k.out == nil {
			return k
		}
		c.passes++
		k.unlink()
		k.turn.ring, k.turn.passed = ring, c.passes+1 // 2 or more: 1 is of a released key, see settleLocked
	}
	return nil
}

// handOutLocked moves the waiting events of a key to a queue.
func (c *Collection[T]) handOutLocked(k *keyState[T], q *Queue[T]) {
	k.unlink()
	k.waiting.moveTo(&q.backlog)
	q.collection, q.state = c, k
	k.out = q
	q.attempt = k.failures + 1
	if k.failures > 0 {
		c.counters.Retries++
		q.backoffEnd = k.backoffEnd
		k.fixed = k.fixed || now() < k.backoffEnd
	}
	c.counters.Waiting--
	c.counters.InFlight++
	if c.sleeping.Load() > 0 && (c.firstFreeLocked(&c.ready[0]) != nil || c.firstFreeLocked(&c.ready[1]) != nil) {
		c.signalLocked()
	}
}

// mostYields is the largest number of times that a consumer without a queue yields the CPU before it
// sleeps.
const mostYields = 16

// yieldLocked lets other goroutines run, until one brings an event. A consumer yields twice as often
// after an event came meanwhile, and half as often, but at least once, after none came: with many
// handlers, or with hours between two events, yields only cost time.
func (c *Collection[T]) yieldLocked() {
	yields := max(c.yields, 1)
	c.mu.Unlock()
	for left := yields; left > 0 && c.buffer.empty(); left-- {
		runtime.Gosched()
	}
	c.mu.Lock()
	if c.buffer.empty() {
		c.yields = yields / 2
	} else {
		c.yields = min(2*yields, mostYields)
	}
}

// sleepLocked waits for a signal: see step 5 above [Collection].
func (c *Collection[T]) sleepLocked() {
	c.sleeping.Add(1)
	if !c.buffer.empty() {
		c.sleeping.Add(-1)
		return
	}
	c.shrinkKeysLocked()
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

// outcome is the way in which a queue was settled. The zero outcome releases it.
type outcome struct {
	how      way
	err      error
	panicked bool  // err comes from a panic or Goexit
	retry    retry // after failed
}

type way uint8

const (
	released way = iota
	acknowledged
	failed
	gaveUp // after a Permanent error; if that ended Each, Queue.each is gaveUpEvent
)

// settle takes a queue back from a consumer. Only the first call for a queue counts.
func (c *Collection[T]) settle(q *Queue[T], o outcome) {
	c.lockAndQueue()
	defer c.mu.Unlock()
	k := q.state
	q.state = nil
	switch {
	case k == nil: // settled before, or the collection is closed
	case c.IsClosed(): // Close waits for mu; it must not touch q any more
		k.out = nil
	default:
		c.settleLocked(k, q, o)
	}
}

func (c *Collection[T]) settleLocked(k *keyState[T], q *Queue[T], o outcome) {
	c.counters.InFlight--
	c.counters.Events -= len(q.events)
	if o.how == gaveUp {
		c.counters.GivenUp++
	}
	if o.panicked {
		c.counters.Panics++
	}
	rest := q.events[q.acknowledged:]
	if o.how == acknowledged || o.how == gaveUp && q.each != gaveUpEvent { // in Each, it gave up one event only
		rest = nil
	}
	if len(rest) > 0 {
		c.waitAgainLocked(k, q, rest)
	} else {
		o.how = acknowledged // also after a failure, if Each completed all events
	}
	k.out = nil // only now: a merge must not make the collection forget the key
	if o.how == acknowledged || o.how == gaveUp {
		k.failures, k.err, k.backoffEnd, k.fixed = 0, nil, 0, false
	}
	if q.initial {
		if o.how == released && k.waits() {
			k.waiting.initial = true
		} else {
			c.initialSettledLocked()
		}
	}
	switch {
	case !k.waits():
		c.forgetLocked(k)
	case o.how == failed:
		c.backOffLocked(k, o)
	case o.how == released: // in front
		c.delayed.remove(k)
		k.unlink()
		ring := c.ringOf(k)
		k.link(ring.next, ring)
		k.turn.passed = 1 // earlier than every turn: see returnLocked
		c.signalLocked()
	default: // its turn is that of the first event that came meanwhile; without one, it goes behind the others
		c.returnLocked(k)
		if k.heapIndex < 0 { // else AddAfter delayed the key
			c.readyLocked(k)
		}
		c.signalLocked()
	}
	c.wakeDrainersLocked()
}

// backOffLocked makes a key wait after a failure. An event that came during the failed attempt does
// not shorten the wait: the handler may have caused it. If [AddAfter] delayed the key during the
// attempt, the key is ready at the earlier of the two times; but if the back-off is fixed, only that counts.
func (c *Collection[T]) backOffLocked(k *keyState[T], o outcome) {
	k.failures++
	k.err = o.err
	if o.retry.hastened {
		k.backoffEnd = max(k.backoffEnd, now()+o.retry.least)
	} else {
		k.backoffEnd, k.fixed = now()+o.retry.wait, false
	}
	k.fixed = k.fixed || o.retry.least > 0 // the server does not want a request earlier
	k.unlink()
	if k.fixed {
		c.delayed.remove(k)
	}
	c.delayLocked(k, k.backoffEnd)
}

// waitAgainLocked makes the remaining events of a queue wait again, merged with the events that came
// meanwhile. If all of them cancel each other, no event waits.
func (c *Collection[T]) waitAgainLocked(k *keyState[T], q *Queue[T], rest []record[T]) {
	b := &k.waiting
	arrived := slices.Clone(b.events)
	if len(arrived) == 0 {
		c.counters.Waiting++
	}
	// Copy the events: the holder may still read the queue.
	whole := q.handedOverWhole()
	events := b.first[:0]
	for i := range rest {
		events = append(events, rest[i].waitingAgain(whole || rest[i].wasRead()))
	}
	b.since, b.live, b.merged = q.since, b.live || q.live, b.merged+q.merged
	c.counters.Events += len(rest)
	total, dropped := len(events)+len(arrived), 0
	for i := range arrived {
		var n int
		events, n = mergeNext(events, arrived[i])
		dropped += n
	}
	c.resizedLocked(k, events, total, dropped)
}
