package series

import "context"

// Observe is the wish of part 10: an author says which objects, and what to do. All the rest is a
// means to that end. Library: informer.New with Handle, or controller.New.
func Observe[T Object](ctx context.Context, which ListerWatcher[T], what func(Event[T])) {
	known := &Map[T]{}
	NewController(Config[T]{which, NewEventQueueCollection(known), Track(known, what)}).Run(ctx)
}
