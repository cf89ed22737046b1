package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

// Observer sees every call of a handler and the event queues of subscribers, for metrics and
// traces. The time of Handling counts as the time of the handler. Each handler calls it on its own
// goroutine, so calls may run at the same time.
type Observer interface {
	// Handling is called before a handler, on the same goroutine, and returns the context for the
	// handler. done may be nil. It is called with the result of the handler. After a panic or
	// runtime.Goexit the result is [eventqueue.ErrAbandoned]; the panic itself is reported as an
	// [*eventqueue.PanicError].
	Handling(ctx context.Context, call Handling) (handlers context.Context, done func(error))
	// Queues is called once for each new subscriber, with the names of the informer and of the
	// subscriber. It returns an observer for [eventqueue.WithObserver], or nil for none.
	// Subscribers that pull events have queues, too, but their loop bodies are not calls of
	// handlers.
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

// WithObserver adds an observer for the calls of handlers. For an informer, it applies to all
// subscribers without this option. If the option is given more than once, as for metrics and
// traces, all observers are called. The default is none and costs nothing. nil adds none, but a nil
// pointer in the interface does not count as nil. For the reflector see [reflector.WithObserver].
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

// observeQueues adds the observers of the subscriber's queues.
func (s *Subscription[T]) observeQueues() {
	for _, one := range s.observers {
		s.queueing = append(s.queueing, eventqueue.WithObserver(one.Queues(s.of.name, s.name))) // nil adds none
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

// observed calls the handler between the calls of the observers. Each observer gets the context of
// the observer before it.
func (s *Subscription[T]) observed(ctx context.Context, event eventqueue.Event[T]) (err error) {
	call := Handling{
		Informer: s.of.name, Subscription: s.name,
		Key: event.Key, Type: event.Type, Origin: event.Origin, ResourceVersion: resourceVersionOf(event.Object),
	}
	err = eventqueue.ErrAbandoned
	for _, one := range s.observers {
		var done func(error)
		if ctx, done = one.Handling(ctx, call); done != nil {
			defer func() { done(err) }()
		}
	}
	err = s.handler.Handle(ctx, event)
	return err
}
