package series

import "context"

// Observe is what the author of a controller wants to say, according to part 10: which objects, and
// what to do. Everything else in this package is a means to this end.
//
// Library: informer.New with Handle, or controller.New.
func Observe[T Object](ctx context.Context, which ListerWatcher[T], what func(Event[T])) {
	known := &Map[T]{}
	NewController(Config[T]{which, NewEventQueueCollection(known), Track(known, what)}).Run(ctx)
}
