package controller

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

// Observer is told why keys are reconciled, and of every call of the reconcile function:
// for metrics and traces. Its methods are called from as many goroutines at once as events
// are mapped and keys are reconciled. They must be quick, and must not panic.
type Observer interface {
	// Triggered is called when an event has a key reconciled, before the key is. ctx has
	// the values of the context in which the event was handled, such as those that an
	// [informer.Observer] gave it. Many triggers may make one call, and a key that failed
	// comes again without one.
	Triggered(ctx context.Context, trigger Trigger)
	// Reconciling is called before the reconcile function is, on the same goroutine, and
	// returns the context for it, which must be made from ctx. done, which may be nil, is
	// called with what the function returned, or [informer.ErrPanicked].
	Reconciling(ctx context.Context, call Reconciling) (reconciles context.Context, done func(Result, error))
}

// Trigger is an event that has a key reconciled.
type Trigger struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	// Key is what is reconciled, and Object the object of the event: the same, unless
	// [Watch] maps one to the other.
	Key, Object store.Key
	// Type and Origin are those of the event.
	Type   eventqueue.Type
	Origin eventqueue.Origin
}

// Reconciling is a call of a reconcile function.
type Reconciling struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	Key        store.Key
	// Attempt is one more than the number of failures of the key since it last went well.
	Attempt int
	// Priority is that with which the key was taken.
	Priority Priority
}

// WithObserver sets who is told why keys are reconciled, and how. The default, and nil, is
// nobody, and costs nothing; a nil pointer is somebody. For the handlers by which a
// reconciler hears of events see [informer.WithObserver]. Given more than once, as for
// metrics and traces, all are told.
func WithObserver(observer Observer) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.observer = withObserver(o.observer, observer) })
}

// cause is what an observer is told of a trigger.
type cause struct {
	ctx   context.Context // of the handler, for its values
	event Trigger
}

// withCause returns a function that tells of triggers as tell does, and of the event that
// they come from.
func withCause[S any](ctx context.Context, event eventqueue.Event[S], tell func(trigger)) func(trigger) {
	of := &cause{ctx, Trigger{Object: event.Key, Type: event.Type, Origin: event.Origin}}
	return func(t trigger) {
		t.cause = of
		tell(t)
	}
}

// tellTriggered tells the observer, if there is one, of what has a key reconciled.
func (s *shift) tellTriggered(t trigger) {
	if s.observer == nil || t.cause == nil {
		return
	}
	event := t.cause.event
	event.Reconciler, event.Key = s.name, t.key
	s.observer.Triggered(t.cause.ctx, event)
}

// observed calls the reconcile function, and tells the observer.
func (s *shift) observed(ctx context.Context, key store.Key, attempt int, p Priority) (result Result, err error) {
	ctx, done := s.observer.Reconciling(ctx, Reconciling{Reconciler: s.name, Key: key, Attempt: attempt, Priority: p})
	if done == nil {
		return s.reconcile(ctx, key)
	}
	err = informer.ErrPanicked
	defer func() { done(result, err) }()
	result, err = s.reconcile(ctx, key)
	return result, err
}
