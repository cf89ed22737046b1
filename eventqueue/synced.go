package eventqueue

// Synced returns a channel that is closed once every object of the first list
// has been handed out and settled in some way: acknowledged, failed, or merged
// away because it was deleted first. For an empty list that is when the list is
// known. Break and return put a queue back unsettled. A collection that is
// closed before never becomes synced.
func (c *Collection[T]) Synced() <-chan struct{} { return c.synced }

// markListedLocked notes that the first list is known. Synced waits from now on
// for all keys that are not settled: also for those whose events came before
// the list, and which it found unchanged.
func (c *Collection[T]) markListedLocked() {
	if c.listed {
		return
	}
	for l := range c.keys.all() {
		if l.heapIndex >= 0 {
			continue // it was handed out and failed, which is a way to be settled
		}
		switch {
		case l.waiting != nil:
			if events := l.waiting.events; events[len(events)-1].Type == Deletion {
				continue // not in the list
			}
			l.waiting.initial = true
		case l.out != nil:
			l.out.initial = true
		}
		c.unsynced++
	}
	c.listed = true
	c.checkSyncedLocked()
}

// initialSettledLocked notes that one key of the first list is through.
func (c *Collection[T]) initialSettledLocked() {
	c.unsynced--
	c.checkSyncedLocked()
}

// checkSyncedLocked closes Synced when it is time: markListedLocked runs once,
// and only it adds to unsynced, so that zero is reached once.
func (c *Collection[T]) checkSyncedLocked() {
	if c.listed && c.unsynced == 0 {
		close(c.synced)
		c.regulateLocked()
		// So many keys at once do not come again soon.
		if c.keys.fit() {
			c.shrinkLocked()
		}
	}
}
