package series

// Replace makes a Sync event for each listed object, and a deletion for each known object that the
// list lacks.
func (c *EventQueueCollection[T]) Replace(objects []T, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []Event[T]
	listed := map[string]bool{}
	for _, object := range objects {
		listed[KeyOf(object)] = true
		events = append(events, Event[T]{Type: Addition, Sync: true, Object: object})
	}
	for _, object := range c.known.List() {
		if !listed[KeyOf(object)] {
			events = append(events, Event[T]{Type: Deletion, FinalStateUnknown: true, Object: object})
		}
	}
	if !c.populated {
		c.initial = len(events)
	}
	c.putLocked(events...)
	return nil
}

// Resync makes a Sync event for each known object that has no waiting event.
func (c *EventQueueCollection[T]) Resync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.known.List() {
		if c.queues[KeyOf(object)] == nil {
			c.putLocked(Event[T]{Type: Modification, Sync: true, Object: object})
		}
	}
	return nil
}
