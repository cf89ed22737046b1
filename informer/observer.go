package informer

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

// Observer sees every call of a handler, for metrics and traces. The time of its method counts as
// the handler's time. Each handler's goroutine calls it, so calls may run at the same time.
type Observer interface {
	// Handling is called before a handler, on the same goroutine, and returns the context for the
	// handler. done may be nil. It is called with the result of the handler, or [ErrPanicked].
	Handling(ctx context.Context, call Handling) (handlers context.Context, done func(error))
}

// QueueObserver is an [Observer] that also sees the event queues of subscribers. It also sees the
// queues of subscribers that pull events, although their loop bodies are not calls of handlers.
type QueueObserver interface {
	Observer
	// Queues is called once for each new subscriber, with the names of the informer and of the
	// subscriber. It returns an observer for [eventqueue.WithObserver], or nil for none.
	Queues(informer, subscription string) func(eventqueue.TakeInfo)
}

// Handling is a call of a handler.
type Handling struct {
	// Informer and Subscription are names: see [WithName].
	Informer, Subscription string
	// Key, Type and Origin belong to the event.
	Key    store.Key
	Type   eventqueue.Type
	Origin eventqueue.Origin
	// ResourceVersion is the version of the event's object, or empty if it has none.
	ResourceVersion string
}

// ErrPanicked is the error that an [Observer] gets if the handler did not return. The panic itself
// is reported as an [*eventqueue.PanicError].
var ErrPanicked = errors.New("handler panicked")

// WithObserver adds an observer for the calls of handlers. For an informer, it applies to all
// subscribers without this option. If the option is given more than once, as for metrics and traces,
// all observers are called. The default is none and costs nothing. nil adds none, but a nil pointer
// in the interface does not count as nil. For the reflector see [reflector.WithObserver].
func WithObserver(observer Observer) CommonOption {
	return commonOptionFunc(func(o *common) {
		if !o.observed {
			o.observers, o.observed = nil, true
		}
		if observer != nil {
			o.observers = append(o.observers, observer)
		}
	})
}

// observeQueues adds the observers that also observe the subscriber's queues.
func (s *Subscription[T]) observeQueues() {
	for _, one := range s.observers {
		observer, ok := one.(QueueObserver)
		if !ok {
			continue
		}
		if queues := observer.Queues(s.of.name, s.name); queues != nil {
			s.queueing = append(s.queueing, eventqueue.WithObserver(queues))
		}
	}
}

// resourceVersionOf returns the resource version of an object. A transformed object may have none,
// so the parameter is an any.
func resourceVersionOf(object any) string {
	if versioned, ok := object.(interface{ GetResourceVersion() string }); ok {
		return versioned.GetResourceVersion()
	}
	return ""
}

// observed calls the handler between the calls of the observer.
func (s *Subscription[T]) observed(ctx context.Context, event eventqueue.Event[T]) (err error) {
	ctx, done := s.observers.Handling(ctx, Handling{
		Informer: s.of.name, Subscription: s.name,
		Key: event.Key, Type: event.Type, Origin: event.Origin, ResourceVersion: resourceVersionOf(event.Object),
	})
	if done == nil {
		return s.handler.Handle(ctx, event)
	}
	err = ErrPanicked
	defer func() { done(err) }()
	err = s.handler.Handle(ctx, event)
	return err
}
