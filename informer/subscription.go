package informer

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/failure"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Subscription is one subscriber of an informer, with its own queue and its own pace. Get one from
// [Informer.Handle] or [Informer.Subscribe].
type Subscription[T any] struct {
	subscriptionOptions
	informer   *Informer[T]
	handler    Handler[T]
	hasHandler bool // the informer calls handler; otherwise the subscriber pulls
	queues     *eventqueue.Collection[T]
	closing    chan struct{} // closed by Close

	// mu protects the fields below it.
	mu      sync.Mutex
	closed  bool
	working int // workers, and loops over Consume
	done    chan struct{}
}

// Name returns the subscriber's name: see [WithName].
func (s *Subscription[T]) Name() string { return s.name }

// Synced returns a channel that is closed once the subscriber got every object that the cache held
// when it subscribed. If the cache was not filled then, the subscriber must get every object of the
// first list. An event whose handler failed counts as got. The channel never closes if the subscription is
// closed before.
func (s *Subscription[T]) Synced() <-chan struct{} { return s.queues.Synced() }

// Lag returns the number of objects with events that are queued or being handled.
func (s *Subscription[T]) Lag() int { return s.queues.Len() }

// Stats returns how far the subscriber is behind, in objects, events and time. It also counts
// merged, dropped, retried and given-up events.
func (s *Subscription[T]) Stats() eventqueue.Stats { return s.queues.Stats() }

// Pending returns at most limit keys with unacknowledged events, oldest first:
// see [eventqueue.Collection.Pending].
func (s *Subscription[T]) Pending(limit int) []eventqueue.Pending {
	return s.queues.Pending(limit)
}

// KeepIf sets a predicate that selects the events that are handed over one by one: see
// [eventqueue.Collection.KeepIf].
func (s *Subscription[T]) KeepIf(keep func(eventqueue.Event[T]) bool) {
	s.queues.KeepIf(keep)
}

// Consume iterates over events until ctx ends or the subscription is closed. The end of the loop
// body acknowledges an event. After break, return or a panic in the body, the next loop over Consume
// gets the event again. Use it with [Informer.Subscribe]: if the subscription has a handler, each
// event goes to only one of them.
func (s *Subscription[T]) Consume(ctx context.Context) iter.Seq[eventqueue.Event[T]] {
	return func(yield func(eventqueue.Event[T]) bool) {
		s.work(func() { s.queues.Consume(ctx)(s.guarded(yield)) })
	}
}

// Close ends the subscription for good. It returns at once. After that, neither the handler nor a
// loop body gets a further event. [Subscription.Done] is closed when the event that is being handed
// over or handled has ended. Close may be called more than once and from anywhere, including the
// handler, except from a predicate.
func (s *Subscription[T]) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.closing)
	if s.working == 0 {
		close(s.done)
	}
	s.mu.Unlock()
	s.queues.Close()
	s.informer.forget(s)
}

// Done returns a channel that is closed when the subscription has been closed and
// the last call of the handler, or loop over Consume, has ended.
func (s *Subscription[T]) Done() <-chan struct{} { return s.done }

// serve starts the goroutines of a subscriber: a worker if it has a handler, and another one for a
// resync. The caller holds the informer's mu.
func (r *run[T]) serve(s *Subscription[T]) {
	if r.workEnded {
		return
	}
	if s.hasHandler {
		r.workers.Go(func() {
			s.work(func() { s.queues.ProcessEach(r.handlerCtx, 1, s.handle, s.report) })
		})
	}
	if s.resync > 0 {
		r.workers.Go(func() { s.resyncs(r.feedCtx) })
	}
}

// work runs fn unless the subscription is closed, and keeps Done open meanwhile.
func (s *Subscription[T]) work(fn func()) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.working++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.working--; s.closed && s.working == 0 {
			close(s.done)
		}
	}()
	fn()
}

func (s *Subscription[T]) handle(ctx context.Context, event eventqueue.Event[T]) error {
	if s.informer.guard != nil {
		defer s.lendToGuard(&event)()
	}
	if len(s.observers) > 0 {
		return s.observed(ctx, event)
	}
	return s.handler.Handle(ctx, event)
}

// report reports a failure of the handler.
func (s *Subscription[T]) report(ctx context.Context, err *eventqueue.HandlerError) {
	failure.Report(ctx, s.logger.With(zap.String("subscriber", s.name)), "handler failed", err, s.errorHandler)
}

// resyncs queues every object for the subscriber once in each period, until ctx ends or the
// subscription is closed. This is the only resync. A relist is the reflector's, and sends only
// changes.
func (s *Subscription[T]) resyncs(ctx context.Context) {
	// A ticker drops ticks while the loop is busy, so periods do not pile up.
	ticker := time.NewTicker(s.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if ctx.Err() != nil {
				return // both were ready
			}
			s.queues.Resync()
		case <-s.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Follow calls a follower with the state of the cache, and then with every commit, until stop is
// called. It is for instruments that need every step at the lowest cost. The follower runs while
// the cache is written, so the reflector waits for it. A subscriber, in contrast, has its own queue
// and pace. See [store.Follower] for the rules, and [store.View.Follow] for those of stop.
func (i *Informer[T]) Follow(follower store.Follower[T]) (stop func()) {
	return i.cache.Follow(follower)
}

// Subscriptions returns the open subscriptions, in the order in which they were made.
func (i *Informer[T]) Subscriptions() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.subscriptions)
}

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
	// OnAdd is called with a new object. initial is true for the objects of the first
	// list, and for those that the cache held when the subscriber subscribed.
	OnAdd func(object T, initial bool)

	// OnUpdate is called with an object that changed. prior is the last object that the subscriber
	// got.
	OnUpdate func(prior, object T)

	// OnDelete is called with the last known state of an object that was deleted, or that left the
	// informer's scopes or selector or the subscriber's predicate, so that it may still exist: see queue-E9. If
	// finalStateKnown is false, later states may have existed: a relist found the object missing, or its
	// scope was dropped. There is no separate type for that case, unlike in client-go.
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

// observed calls the handler between the calls of the observers. Each observer gets the context of
// the observer before it.
func (s *Subscription[T]) observed(ctx context.Context, event eventqueue.Event[T]) (err error) {
	call := Handling{
		Informer: s.informer.name, Subscription: s.name,
		Key: event.Key, Type: event.Type, Origin: event.Origin, ResourceVersion: versions.Of(event.Object),
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
