package series

// Handler is ResourceEventHandler. Its methods return nothing, so a handler cannot report a failure.
//
// Library: informer.Handler, which returns an error.
type Handler[T Object] interface {
	OnAdd(object T)
	OnUpdate(prior, object T)
	OnDelete(object T)
}

// NewInformer is client-go's: a Controller that can also distribute what it pops to a handler. The
// Store is the known objects, and not the queue that the reflector fills. The caller may only read it,
// although its type has methods that write.
//
// Library: informer.New, whose Cache has no methods that write.
func NewInformer[T Object](source ListerWatcher[T], handler Handler[T]) (Store[T], Controller[T]) {
	known := &Map[T]{}
	process := Track(known, func(event Event[T]) { Deliver(handler, event) })
	return known, NewController(Config[T]{source, NewEventQueueCollection(known), process})
}

// Deliver calls the method of a handler that fits an event.
func Deliver[T Object](handler Handler[T], event Event[T]) {
	switch event.Type {
	case Addition:
		handler.OnAdd(event.Object)
	case Modification:
		handler.OnUpdate(event.Prior, event.Object)
	case Deletion:
		handler.OnDelete(event.Object)
	}
}
