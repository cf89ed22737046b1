package eventqueue

import (
	"slices"
	"time"
)

// sortInLocked queues the events that are in the inbox.
func (c *Collection[T]) sortInLocked() {
	if c.isClosed() {
		return
	}
	events := c.inbox.take()
	for i := range events {
		c.enqueueLocked(&events[i].record, events[i].came)
	}
	c.inbox.reuse(events)
}

// enqueueLocked adds an event that came at the given time.
func (c *Collection[T]) enqueueLocked(r *record[T], since time.Duration) {
	l, h := c.keys.get(r.Key)
	if l == nil {
		l = c.spare.take(c.keys.len)
		l.key, l.hash, l.heapIndex = r.Key, h, -1
		c.keys.add(l)
	}
	switch {
	case l.waiting != nil:
		c.joinLocked(l, r)
	case l.out != nil && r.Origin == Resync:
		// The handler is working on this very state.
		c.counters.merged++
		return
	default:
		c.waitLocked(l, c.newQueue(r, since))
	}
	if l.waiting == nil {
		return // merged away
	}
	if r.Origin != Resync {
		c.delayed.remove(l)
	}
	if l.heapIndex < 0 {
		c.readyLocked(l)
	}
}

func (c *Collection[T]) newQueue(r *record[T], since time.Duration) *Queue[T] {
	q := c.unused.take()
	q.of, q.since, q.live = c, since, r.live()
	q.first[0] = *r
	q.events = q.first[:]
	return q
}

// waitLocked makes a new queue wait for its key's turn.
func (c *Collection[T]) waitLocked(l *line[T], q *Queue[T]) {
	q.line = l
	l.waiting = q
	c.ages.add(q)
	c.counters.waiting++
	c.counters.events += len(q.events)
}

// joinLocked adds an event to the waiting events of a key.
func (c *Collection[T]) joinLocked(l *line[T], r *record[T]) {
	q := l.waiting
	if !q.live && r.live() {
		q.live = true
		c.reclassLocked(l)
	}
	events, dropped := add(c.policy(), q.events, *r)
	c.resizedLocked(l, q, events, len(q.events)+1, dropped)
}

// resizedLocked stores the events of a waiting queue after a merge. The argument came is the number
// of events before the merge.
func (c *Collection[T]) resizedLocked(l *line[T], q *Queue[T], events []record[T], came, dropped int) {
	c.counters.events += len(events) - len(q.events)
	merged := came - len(events) - dropped
	c.counters.merged += uint64(merged)
	q.merged += int32(merged)
	c.counters.dropped += uint64(dropped)
	q.events = events
	if len(events) == 0 {
		c.emptiedLocked(l)
		return
	}
	if &events[0] != &q.first[0] {
		q.first[0] = record[T]{} // release objects that may be gone
	}
}

// emptiedLocked handles a key whose waiting events were all merged away. It forgets the key unless
// its queue is out.
func (c *Collection[T]) emptiedLocked(l *line[T]) {
	q := l.waiting
	l.unlink()
	c.delayed.remove(l) // a queue can fail before its first event is handed over
	c.ages.remove(q)
	l.waiting = nil
	c.counters.waiting--
	if q.initial {
		c.initialSettledLocked()
	}
	c.forgetLocked(l)
}

// forgetLocked forgets a key without waiting events, unless its queue is out.
func (c *Collection[T]) forgetLocked(l *line[T]) {
	if l.out != nil || l.waiting != nil {
		return
	}
	if c.keys.remove(l) {
		c.shrinkLocked()
	}
	c.spare.put(l)
	c.wakeDrainersLocked()
}

// shrinkLocked releases the memory that many keys needed, except the table of keys.
func (c *Collection[T]) shrinkLocked() {
	c.spare.drop()
	c.unused = unused[T]{}
	c.delayed = slices.Clone(c.delayed)
}
