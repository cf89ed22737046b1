package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
)

// Handler is told what happens to objects, one event at a time. Where it returns an
// error, the event comes again after a back-off, together with what happened
// meanwhile; events of other objects go on. The context ends when the time that
// [WithDrainTimeout] gives is over, not with the one that Run was given.
type Handler[T any] interface {
	Handle(ctx context.Context, event eventqueue.Event[T]) error
}

// HandlerFunc is a function as a [Handler].
type HandlerFunc[T any] func(ctx context.Context, event eventqueue.Event[T]) error

// Handle implements [Handler].
func (f HandlerFunc[T]) Handle(ctx context.Context, event eventqueue.Event[T]) error {
	return f(ctx, event)
}

// HandlerFuncs is a [Handler] with a function for each type of event, which cannot
// fail. Functions that are nil are not called.
type HandlerFuncs[T any] struct {
	// OnAdd is called with an object that appeared. initial is true if it was
	// there before the subscriber looked.
	OnAdd func(object T, initial bool)

	// OnUpdate is called with an object that changed; prior is what the subscriber
	// heard of last.
	OnUpdate func(prior, object T)

	// OnDelete is called with the last known state of an object that is gone. If
	// finalStateKnown is false, there may have been later ones: the object was
	// only found missing. There is no other type for that case, as client-go has.
	OnDelete func(object T, finalStateKnown bool)
}

var _ Handler[any] = HandlerFuncs[any]{}

// Handle implements [Handler]. It returns nil.
func (h HandlerFuncs[T]) Handle(_ context.Context, event eventqueue.Event[T]) error {
	switch event.Type {
	case eventqueue.Addition:
		if h.OnAdd != nil {
			h.OnAdd(event.Object, event.Initial)
		}
	case eventqueue.Modification:
		if h.OnUpdate != nil {
			h.OnUpdate(event.Prior, event.Object)
		}
	case eventqueue.Deletion:
		if h.OnDelete != nil {
			h.OnDelete(event.Object, event.FinalStateKnown)
		}
	}
	return nil
}
