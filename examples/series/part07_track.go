package series

// Track is the heart of all: client-go's HandleDeltas, and ResourceTrackingEventQueueConsumer of the
// Java outcome. It first brings the known objects up to date and then passes the event on, so that a
// handler finds in the store at least what the event says. Whether an event is an addition or a
// modification is decided here: by what is known, and not by the sender.
//
// Library: store.Commit, which a cache makes when it is written.
func Track[T Object](known Store[T], next func(Event[T])) func(*EventQueue[T]) error {
	return func(queue *EventQueue[T]) error {
		for _, event := range queue.Events {
			prior, found := known.Get(event.Object)
			var err error
			switch {
			case event.Type == Deletion:
				err = known.Delete(event.Object)
			case found:
				event.Type, event.Prior = Modification, prior
				err = known.Update(event.Object)
			default:
				event.Type = Addition
				err = known.Add(event.Object)
			}
			if err != nil {
				return err
			}
			next(event)
		}
		return nil
	}
}
