package eventqueue

import (
	"context"
	"slices"
)

// Synced returns a channel that is closed once every object of the first list was handed out and
// settled. An object counts as settled if it was acknowledged, failed, or was merged away by its
// deletion. For an empty list, the channel closes when the list is known. Break and return put a
// queue back unsettled. A collection that is closed before never becomes synced.
func (c *Collection[T]) Synced() <-chan struct{} { return c.synced }

// markListedLocked records that the first list is known. From now on, Synced waits for all keys
// that are not settled. This includes keys whose events came before the list and that the list
// found unchanged.
func (c *Collection[T]) markListedLocked() {
	if c.listed {
		return
	}
	for k := range c.keys.all() {
		if k.heapIndex >= 0 {
			continue // the key failed, which settles it, or only AddAfter delays it
		}
		switch {
		case k.waits():
			if events := k.waiting.events; events[len(events)-1].Type == Deletion {
				continue // not in the list
			}
			k.waiting.initial = true
		case k.out != nil:
			k.out.initial = true
		}
		c.unsynced++
	}
	c.listed = true
	c.checkSyncedLocked()
}

// initialSettledLocked records that one key of the first list is settled.
func (c *Collection[T]) initialSettledLocked() {
	c.unsynced--
	c.checkSyncedLocked()
}

// checkSyncedLocked closes the channel once no key of the first list remains. It does so only once,
// because markListedLocked runs once and nothing else adds to unsynced.
func (c *Collection[T]) checkSyncedLocked() {
	if c.listed && c.unsynced == 0 {
		close(c.synced)
		c.eager.Add(-1)
		c.keys.fit() // the first list usually has the most keys
	}
}

// Drain waits until no queue is ready and no queue is out, while consumers settle queues. It does
// not wait for failed keys in back-off, or for keys that [AddAfter] delays.
//
// Drain returns nil if no event is left, except events of delayed keys. Otherwise, also when ctx ended first, it returns a
// [*DrainError] that lists the remaining events. Stop the writer before you call Drain, because
// Drain also waits for events that come meanwhile. A closed collection holds no events.
//
// A handler or a loop's body must not call Drain with a context that does not end, because its own
// queue is out.
func (c *Collection[T]) Drain(ctx context.Context) error {
	c.eager.Add(1) // before lock, so that later commits buffer nothing
	defer c.eager.Add(-1)
	c.lock()
	defer c.mu.Unlock()
	for !c.idleLocked() {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		select {
		case <-idle:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return c.leftLocked(context.Cause(ctx))
		}
	}
	return c.leftLocked(nil)
}

// wakeDrainersLocked wakes the Drain calls if no queue is ready or out.
func (c *Collection[T]) wakeDrainersLocked() {
	if c.idle != nil && c.idleLocked() {
		close(c.idle)
		c.idle = nil
	}
}

// Left returns a [*DrainError] with this cause for the keys whose events are left, or nil if there is
// none. Keys that only [AddAfter] delays do not count. Call it when the writer and the consumers have
// ended; [Collection.Drain] returns the same, but waits for consumers first.
func (c *Collection[T]) Left(cause error) error {
	c.lock()
	defer c.mu.Unlock()
	return c.leftLocked(cause)
}

func (c *Collection[T]) leftLocked(cause error) error {
	if c.IsClosed() {
		return nil
	}
	e := &DrainError{Cause: cause, Pending: make([]Pending, 0, c.keys.len)}
	at := now()
	for k := range c.keys.all() {
		if k.out != nil || k.heapIndex < 0 || k.failures > 0 { // else only AddAfter delays it
			e.Pending = append(e.Pending, k.pending(at))
		}
	}
	if len(e.Pending) == 0 {
		return nil
	}
	e.sort()
	return e
}

// sort orders the remaining keys. It must not be inlined into generic code, because the compiler
// would then compile it again for each type.
//
//go:noinline
func (e *DrainError) sort() {
	slices.SortFunc(e.Pending, func(a, b Pending) int { return a.Key.Compare(b.Key) })
}
