package eventqueue

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// lock locks mu and queues the events that commits left in the buffer.
func (c *Collection[T]) lock() {
	c.mu.Lock()
	c.queueBufferedLocked()
}

// queueBufferedLocked queues the events in the buffer.
func (c *Collection[T]) queueBufferedLocked() {
	for !c.buffer.empty() {
		if a := c.buffer.take(); !c.isClosed() {
			c.enqueueLocked(&a.record, a.hash, a.wanted, a.came)
		}
	}
}

// enqueueLocked adds an event that came at the given time, and whose key has the given hash.
func (c *Collection[T]) enqueueLocked(r *record[T], hash uint64, wanted bool, came time.Duration) {
	k := c.stateLocked(r.Key, hash)
	switch {
	case k.waits():
		if !c.joinLocked(k, r, wanted) {
			return
		}
		k.waiting.since = min(k.waiting.since, came) // later, if AddAfter delayed the key
	case k.out != nil && r.Origin == Resync:
		c.counters.Merged++ // the handler is working on this very state
		return
	default:
		c.beginLocked(k, r, came)
		k.waiting.first[0].wanted = wanted
	}
	if r.Origin != Resync {
		c.delayed.remove(k)
	}
	if k.heapIndex < 0 {
		c.readyLocked(k)
	}
}

// stateLocked returns the state of a key with the given hash. It creates the state if necessary.
func (c *Collection[T]) stateLocked(key store.Key, hash uint64) *keyState[T] {
	k := c.keys.get(key, hash)
	if k == nil {
		k = c.free.Get().(*keyState[T])
		k.key, k.hash = key, hash
		c.keys.add(k)
	}
	return k
}

// beginLocked makes an event wait for a key that has no waiting event.
func (c *Collection[T]) beginLocked(k *keyState[T], r *record[T], came time.Duration) {
	b := &k.waiting
	b.first[0] = *r
	b.events, b.since, b.live = b.first[:], came, r.live()
	c.counters.Waiting++
	c.counters.Events++
}

// joinLocked adds an event to the waiting events of a key, and reports whether any remains.
func (c *Collection[T]) joinLocked(k *keyState[T], r *record[T], wanted bool) bool {
	b := &k.waiting
	if !b.live && r.live() {
		b.live = true
		c.reclassLocked(k)
	}
	next := *r
	next.wanted = wanted
	before := len(b.events)
	events, dropped := add(c.policy(), b.events, next)
	return c.resizedLocked(k, events, before, before+1, dropped)
}

// resizedLocked stores the waiting events of a key after a merge, and reports whether any remains.
// The argument counted is the number of events in the statistics; came is the number of events
// before the merge.
func (c *Collection[T]) resizedLocked(k *keyState[T], events []record[T], counted, came, dropped int) bool {
	c.counters.Events += len(events) - counted
	merged := came - len(events) - dropped
	c.counters.Merged += uint64(merged)
	k.waiting.merged += int32(merged)
	c.counters.Dropped += uint64(dropped)
	k.waiting.set(events)
	if len(events) > 0 {
		return true
	}
	// Forget the key unless its queue is out.
	k.unlink()
	c.delayed.remove(k) // a queue can fail before its first event is handed over
	c.counters.Waiting--
	if k.waiting.initial {
		c.initialSettledLocked()
	}
	k.waiting = backlog[T]{}
	c.forgetLocked(k)
	return false
}

// forgetLocked forgets a key without waiting events, unless its queue is out.
func (c *Collection[T]) forgetLocked(k *keyState[T]) {
	if k.out != nil || k.waits() {
		return
	}
	c.keys.remove(k)
	c.freeState(k)
	c.wakeDrainersLocked()
}
