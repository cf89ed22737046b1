package informer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Subscription is one subscriber of an informer, with its own queue and its own pace. Get one from
// [Informer.Handle] or [Informer.Subscribe].
type Subscription[T any] struct {
	subscriptionOptions
	of      *Informer[T]
	handler Handler[T]
	called  bool // the informer calls the handler; otherwise the subscriber pulls
	queues  *eventqueue.Collection[T]
	closing chan struct{} // closed by Close

	// mu protects the fields below it.
	mu      sync.Mutex
	closed  bool
	working int // workers, and loops over Events
	done    chan struct{}
}

// Name returns the subscriber's name: see [WithName].
func (s *Subscription[T]) Name() string { return s.name }

// Synced returns a channel that is closed once the subscriber got every object that the cache held
// when it subscribed. If the cache was not filled then, the subscriber must get every object of the
// first list. An event whose handler failed counts. The channel never closes if the subscription is
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
		s.while(func() { s.queues.Consume(ctx)(s.guarded(yield)) })
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
	s.of.forget(s)
}

// Done returns a channel that is closed when the subscription has been closed and
// the last call of the handler, or loop over Events, has ended.
func (s *Subscription[T]) Done() <-chan struct{} { return s.done }

// work calls the handler until ctx ends or the subscription is closed.
func (s *Subscription[T]) work(ctx context.Context) {
	s.while(func() { s.queues.ProcessEach(ctx, 1, s.handle, s.report) })
}

// while runs fn unless the subscription is closed, and keeps Done open meanwhile.
func (s *Subscription[T]) while(fn func()) {
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
	if s.of.guard != nil {
		defer s.given(&event)()
	}
	if len(s.observers) > 0 {
		return s.observed(ctx, event)
	}
	return s.handler.Handle(ctx, event)
}

// report reports a failure of the handler.
func (s *Subscription[T]) report(ctx context.Context, err *eventqueue.HandlerError) {
	fields := append(about(err), zap.String("subscriber", s.name), zap.Int("attempt", err.Attempt),
		zap.Bool("final", eventqueue.IsPermanent(err.Err)), zap.Error(err.Err))
	if panicked, ok := errors.AsType[*eventqueue.PanicError](err); ok {
		fields = append(fields, zap.ByteString("handlerStack", panicked.Stack))
	}
	// A stack trace of the logger would show this library, not the handler.
	s.logger.WithOptions(zap.AddStacktrace(zapcore.InvalidLevel)).Error("handler failed", fields...)
	s.tell(ctx, err)
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
// and pace. See [store.Follower] for the rules.
//
// When stop returns, no call is running and none will follow. stop may be called more than once,
// but not from the follower.
func (i *Informer[T]) Follow(follower store.Follower[T]) (stop func()) {
	return i.cache.Follow(follower)
}

// Subscriptions returns the open subscriptions, in the order in which they were made.
func (i *Informer[T]) Subscriptions() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.subscriptions)
}
