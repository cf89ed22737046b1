package eventqueue

import (
	"maps"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// enqueueLocked adds the event that a change means.
func (c *Collection[T]) enqueueLocked(change *store.Change[T], origin Origin, initial bool) {
	l := c.keys[change.Key]
	if l == nil {
		l = c.newLineLocked(change.Key)
	}
	switch {
	case l.waiting != nil:
		c.joinLocked(l, newRecord(change, origin, initial))
	case l.out != nil && origin == Resync:
		// The handler is working on this very state.
		c.counters.merged++
		return
	default:
		c.waitLocked(l, c.newQueue(newRecord(change, origin, initial), time.Since(c.epoch)))
	}
	if l.waiting == nil {
		return // merged away
	}
	if origin != Resync {
		c.delayed.remove(l)
	}
	if l.heapIndex < 0 {
		c.readyLocked(l)
	}
}

func (c *Collection[T]) newQueue(r record[T], since time.Duration) *Queue[T] {
	q := &Queue[T]{of: c, since: since, live: r.live()}
	q.first[0] = r
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

// joinLocked adds an event to those that wait.
func (c *Collection[T]) joinLocked(l *line[T], r record[T]) {
	q := l.waiting
	if !q.live && r.live() {
		q.live = true
		c.reclassLocked(l)
	}
	events, dropped := add(c.compaction, q.events, r)
	c.resizedLocked(l, q, events, len(q.events)+1, dropped)
}

// resizedLocked takes over the events of a waiting queue after they were merged with
// each other. came is how many there would be without that.
func (c *Collection[T]) resizedLocked(l *line[T], q *Queue[T], events []record[T], came, dropped int) {
	c.counters.events += len(events) - len(q.events)
	c.counters.merged += uint64(came - len(events) - dropped)
	c.counters.dropped += uint64(dropped)
	q.events = events
	if len(events) == 0 {
		c.emptiedLocked(l)
		return
	}
	if &events[0] != &q.first[0] {
		q.first[0] = record[T]{} // holds objects that may be gone
	}
}

// emptiedLocked notes that all that waited for a key was merged away, and forgets the
// key unless it is out.
func (c *Collection[T]) emptiedLocked(l *line[T]) {
	q := l.waiting
	l.unlink()
	c.delayed.remove(l)
	c.ages.remove(q)
	l.waiting = nil
	c.counters.waiting--
	if q.initial {
		c.initialSettledLocked()
	}
	c.forgetLocked(l)
}

// forgetLocked forgets a key of which nothing waits, unless it is out.
func (c *Collection[T]) forgetLocked(l *line[T]) {
	if l.out != nil || l.waiting != nil {
		return
	}
	delete(c.keys, l.key)
	c.spare.put(l)
	c.shrinkLocked()
	c.wakeDrainersLocked()
}

func (c *Collection[T]) newLineLocked(key store.Key) *line[T] {
	l := c.spare.take(len(c.keys))
	l.key, l.heapIndex = key, -1
	c.keys[key] = l
	c.counters.peak = max(c.counters.peak, len(c.keys))
	return l
}

// shrinkLocked gives back the memory that many keys needed once, such as those of the
// first list, as soon as less than a quarter of them is left: some may stay for ever. A
// map never does that by itself.
func (c *Collection[T]) shrinkLocked() {
	const large = 1024
	if c.counters.peak >= large {
		c.fitLocked()
	}
}

// fitLocked makes the memory for keys fit those that there are, if less than a quarter of
// it is in use.
func (c *Collection[T]) fitLocked() {
	if len(c.keys) >= c.counters.peak/4 {
		return
	}
	keys := make(map[store.Key]*line[T], len(c.keys))
	maps.Copy(keys, c.keys)
	c.keys = keys
	c.spare.drop()
	c.delayed = slices.Clone(c.delayed)
	c.counters.peak = len(keys)
}
