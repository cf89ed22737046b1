package series

// Replace turns a list into events: an Addition for each object of the list, and a Deletion for each
// known object that the list lacks. Objects that wait and are not known are overlooked.
func (c *EventQueueCollection[T]) Replace(objects []T, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed := map[string]bool{}
	for _, object := range objects {
		listed[KeyOf(object)] = true
		c.putLocked(Event[T]{Type: Addition, Object: object, Sync: true})
	}
	for _, object := range c.known.List() {
		if !listed[KeyOf(object)] {
			c.putLocked(Event[T]{Type: Deletion, Object: object, FinalStateUnknown: true})
		}
	}
	if !c.populated {
		c.populated = true
		c.initial = len(c.order)
	}
	return nil
}

// Resync repeats each known object that has no waiting event.
func (c *EventQueueCollection[T]) Resync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.known.List() {
		if c.queues[KeyOf(object)] == nil {
			c.putLocked(Event[T]{Type: Modification, Object: object, Sync: true})
		}
	}
	return nil
}
