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
		if n := c.buffer.take(); !c.IsClosed() {
			c.enqueueLocked(n)
		}
	}
}

// enqueueLocked makes an event wait.
func (c *Collection[T]) enqueueLocked(n *news[T]) {
	r := &n.record
	k := c.stateLocked(r.Key, n.hash)
	if k.out != nil && !k.waits() && r.Origin == Resync {
		c.counters.Merged++ // the handler is working on this very state
		return
	}
	if !c.joinLocked(k, r, n.came) {
		return
	}
	if r.Origin != Resync && k.mayHasten() {
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

// joinLocked adds an event that came at the given time to the waiting events of a key, and reports
// whether any remains.
func (c *Collection[T]) joinLocked(k *keyState[T], r *record[T], came time.Duration) bool {
	b := &k.waiting
	if !k.waits() {
		b.events, b.since = b.first[:0], came
		c.counters.Waiting++
	}
	b.since = min(b.since, came) // AddAfter may have delayed the key
	if !b.live && r.live() {
		b.live = true
		c.reclassLocked(k)
	}
	before := len(b.events)
	events, dropped := add(c.policy(), b.events, *r)
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
