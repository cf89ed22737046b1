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

// QueueObserver is an [Observer] that is told of the event queues of subscribers as well:
// of those that pull events, too, whose bodies of loops are no calls.
type QueueObserver interface {
	Observer
	// Queues is called once for each new subscriber, with the names of the informer and of
	// the subscriber, and returns who is told of its queues; nil for nobody.
	Queues(informer, subscription string) eventqueue.Observer
}

// Handling is a call of a handler.
type Handling struct {
	// Informer and Subscription are names: see [WithName].
	Informer, Subscription string
	// Key, Type and Origin are those of the event.
	Key    store.Key
	Type   eventqueue.Type
	Origin eventqueue.Origin
	// ResourceVersion is that of the event's object, or empty if it has none.
	ResourceVersion string
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

// observeQueues has the observers be told of the subscriber's queues that want to be.
func (s *Subscription[T]) observeQueues() {
	all, several := s.observer.(observers)
	if !several {
		all = observers{s.observer}
	}
	for _, one := range all {
		observer, ok := one.(QueueObserver)
		if !ok {
			continue
		}
		if queues := observer.Queues(s.of.name, s.name); queues != nil {
			s.queueing = append(s.queueing, eventqueue.WithObserver(queues))
		}
	}
}

// resourceVersionOf returns the resource version of an object. What an informer was made to
// keep of objects may have none: hence any.
func resourceVersionOf(object any) string {
	if versioned, ok := object.(interface{ GetResourceVersion() string }); ok {
		return versioned.GetResourceVersion()
	}
	return ""
}

// observed calls the handler, and tells the observer.
func (s *Subscription[T]) observed(ctx context.Context, event eventqueue.Event[T]) (err error) {
	ctx, done := s.observer.Handling(ctx, Handling{
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
