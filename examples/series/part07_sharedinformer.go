package series

import "context"

// SharedInformer is sharedIndexInformer without its indexes: one controller and one store for many
// handlers. When it runs, a message goes from the server to the reflector, which adds an event to the
// queue; the loop of the controller pops it, Track writes the store, and the Distributor passes it on
// to each handler.
//
// Library: informer.Informer.
type SharedInformer[T Object] struct {
	known       Map[T]
	distributor Distributor[T]
	controller  Controller[T]
}

func NewSharedInformer[T Object](source ListerWatcher[T]) *SharedInformer[T] {
	s := &SharedInformer[T]{}
	s.controller = NewController(Config[T]{
		Source:  source,
		Queue:   NewEventQueueCollection(&s.known),
		Process: Track(&s.known, s.distributor.Distribute),
	})
	return s
}

// AddEventHandler adds a handler at any time. As in the Java outcome, one that comes late hears nothing
// of what is there; client-go 6.0 first sent it the stored objects. client-go counts each new handler
// as syncing until it checks for the first time who is due for a resync; here the caller says it.
func (s *SharedInformer[T]) AddEventHandler(handler Handler[T], syncing bool) {
	s.distributor.AddHandler(handler, syncing)
}

// GetStore returns the known objects, which the caller may only read.
func (s *SharedInformer[T]) GetStore() Store[T] { return &s.known }

func (s *SharedInformer[T]) HasSynced() bool { return s.controller.HasSynced() }

func (s *SharedInformer[T]) Run(ctx context.Context) {
	s.controller.Run(ctx)
	s.distributor.Close()
}
