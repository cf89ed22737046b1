package reconcile

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
)

// Observer sees why keys are reconciled, and every call of the reconcile function, for metrics and
// traces. Several goroutines call its methods at the same time: one for each informer whose events
// are mapped, and one for each worker. Its methods must be quick, and must not panic.
type Observer interface {
	// Triggered is called when an event triggers a reconcile, before that reconcile. ctx has the
	// values of the context in which the event was handled, such as those of an
	// [informer.Observer]. One call may have many triggers. A retry after a failure has none.
	Triggered(ctx context.Context, trigger Trigger)
	// Reconciling is called before the reconcile function, on the same goroutine, and returns the
	// context for it, which must derive from ctx. done may be nil. It is called with the result of
	// the function. After a panic or runtime.Goexit the error is [eventqueue.ErrAbandoned].
	Reconciling(ctx context.Context, call Call) (reconciles context.Context, done func(Result, error))
}

// Trigger is an event that triggers a reconcile.
type Trigger struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	// Key is the key to reconcile, and Object the object of the event. They are the same unless
	// [Watch] maps one to the other.
	Key, Object store.Key
	// Type and Origin belong to the event.
	Type   eventqueue.Type
	Origin eventqueue.Origin
}

// Call is a call of a reconcile function.
type Call struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	Key        store.Key
	// Attempt is one more than the number of failures of the key since its last success.
	Attempt int
	// Waited is the time since the oldest event that triggered the call, or since the end of the
	// delay that did.
	Waited time.Duration
}

// WithObserver adds an observer of triggers and calls. If the option is given more than once, as
// for metrics and traces, all observers are called. The default is none and costs nothing. nil adds
// none, but a nil pointer in the interface does not count as nil. For the handlers through which a
// reconciler gets events see [informer.WithObserver].
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) {
		if observer != nil {
			o.observers = append(o.observers, observer)
		}
	})
}

// cause is the observer's data of a trigger.
type cause struct {
	ctx   context.Context // of the handler, for its values
	event Trigger
}

// withCause returns a function that passes triggers to tell, together with their event.
func withCause[S any](ctx context.Context, event eventqueue.Event[S], tell func(trigger)) func(trigger) {
	of := &cause{ctx, Trigger{Object: event.Key, Type: event.Type, Origin: event.Origin}}
	return func(t trigger) {
		t.cause = of
		tell(t)
	}
}

// tellTriggered calls the observers for a trigger.
func (r *run) tellTriggered(t trigger) {
	if t.cause == nil {
		return
	}
	event := t.cause.event
	event.Reconciler, event.Key = r.name, t.key
	for _, one := range r.observers {
		one.Triggered(t.cause.ctx, event)
	}
}

// observed calls the reconcile function between the calls of the observers. Each observer gets the
// context of the observer before it.
func (r *run) observed(ctx context.Context, queue *eventqueue.Queue[store.Key]) (result Result, err error) {
	key := queue.Key()
	call := Call{Reconciler: r.name, Key: key, Attempt: queue.Attempt(), Waited: queue.Waited()}
	err = eventqueue.ErrAbandoned
	for _, one := range r.observers {
		var done func(Result, error)
		if ctx, done = one.Reconciling(ctx, call); done != nil {
			defer func() { done(result, err) }()
		}
	}
	result, err = r.reconcile(ctx, key)
	return result, err
}
