package informer

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

// Observer is told of every call of a handler: for metrics and traces. What its method does
// is part of the handler's time. It is called from as many goroutines at once as handlers
// are.
type Observer interface {
	// Handling is called before a handler is, on the same goroutine, and returns the
	// context for it. done, which may be nil, is called with what the handler returned, or
	// [ErrPanicked].
	Handling(ctx context.Context, call Handling) (handlers context.Context, done func(error))
}

// Handling is a call of a handler.
type Handling struct {
	// Informer and Subscription are names: see [WithName].
	Informer, Subscription string
	// Key, Type and Origin are those of the event.
	Key    store.Key
	Type   eventqueue.Type
	Origin eventqueue.Origin
}

// ErrPanicked is what an [Observer] gets if the handler did not return. The panic itself
// is reported as an [*eventqueue.PanicError].
var ErrPanicked = errors.New("handler panicked")

// WithObserver sets who is told of the calls of handlers: of an informer, of all its
// subscribers that do not have an observer of their own. The default is nobody, and costs
// nothing; nil is nobody, but not a nil pointer to one. For what the reflector does see
// [reflector.WithObserver]. Given more than once, as for metrics and traces, all are told.
func WithObserver(observer Observer) CommonOption {
	return commonOptionFunc(func(o *common) {
		if !o.observed {
			o.observer, o.observed = nil, true
		}
		o.observer = withObserver(o.observer, observer)
	})
}

// observed calls the handler, and tells the observer.
func (s *Subscription[T]) observed(ctx context.Context, event eventqueue.Event[T]) (err error) {
	ctx, done := s.observer.Handling(ctx, Handling{
		Informer: s.of.name, Subscription: s.name,
		Key: event.Key, Type: event.Type, Origin: event.Origin,
	})
	if done == nil {
		return s.handler.Handle(ctx, event)
	}
	err = ErrPanicked
	defer func() { done(err) }()
	err = s.handler.Handle(ctx, event)
	return err
}
