package eventqueue

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
			continue // the key was handed out and failed, which settles it
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
