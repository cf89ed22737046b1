package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
)

// Handler gets events of objects, one at a time. If it returns an error, the event is retried after
// a back-off, together with newer events of the object. Events of other objects continue. The
// context ends when the time of [WithDrainTimeout] is over, not when the context of Run ends.
type Handler[T any] interface {
	Handle(ctx context.Context, event eventqueue.Event[T]) error
}

// HandlerFunc is a [Handler] that calls a function.
type HandlerFunc[T any] func(ctx context.Context, event eventqueue.Event[T]) error

// Handle implements [Handler].
func (f HandlerFunc[T]) Handle(ctx context.Context, event eventqueue.Event[T]) error {
	return f(ctx, event)
}

// HandlerFuncs is a [Handler] with one function for each type of event. The functions return no
// errors. Functions that are nil are not called.
type HandlerFuncs[T any] struct {
	// OnAdd is called with a new object. initial is true if the object existed before the
	// subscriber subscribed.
	OnAdd func(object T, initial bool)

	// OnUpdate is called with an object that changed. prior is the last object that the subscriber
	// got.
	OnUpdate func(prior, object T)

	// OnDelete is called with the last known state of a deleted object. If finalStateKnown is
	// false, later states may have existed: a relist found the object missing. There is no separate
	// type for that case, unlike in client-go.
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
