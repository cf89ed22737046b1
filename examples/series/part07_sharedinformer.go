package series

import "context"

// Track is HandleDeltas, and ResourceTrackingEventQueueConsumer of the Java outcome: it updates the
// known objects first, and passes on an event that says what changed for the known objects.
// Library: store.Commit, and the cache of a collection.
func Track[T Object](known Store[T], next func(Event[T])) func(*EventQueue[T]) error {
	return func(queue *EventQueue[T]) error {
		for _, event := range queue.Events {
			if event.Type == Deletion {
				if err := known.Delete(event.Object); err != nil {
					return err
				}
			} else {
				prior, ok := known.Get(event.Object)
				if err := known.Update(event.Object); err != nil {
					return err
				}
				event.Type = Addition
				if ok {
					event.Type, event.Prior = Modification, prior
				}
			}
			next(event)
		}
		return nil
	}
}

// SharedInformer is sharedIndexInformer: one controller, one store, many handlers.
// Library: informer.Informer.
type SharedInformer[T Object] struct {
	Distributor[T]
	store      Map[T]
	controller Controller[T]
}

func NewSharedInformer[T Object](source ListerWatcher[T]) *SharedInformer[T] {
	s := &SharedInformer[T]{}
	s.controller = NewController(Config[T]{source, NewEventQueueCollection(&s.store), Track(&s.store, s.Distribute)})
	return s
}

// GetStore returns the known objects, not the queue that the reflector fills. Nobody may write it.
func (s *SharedInformer[T]) GetStore() Store[T] { return &s.store }
func (s *SharedInformer[T]) HasSynced() bool    { return s.controller.HasSynced() }

func (s *SharedInformer[T]) Run(ctx context.Context) {
	s.controller.Run(ctx)
	s.Close()
}
