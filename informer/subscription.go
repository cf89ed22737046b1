package informer

import (
	"context"
	"iter"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Subscription is one subscriber of an informer: a queue of its own, at a pace of
// its own. Get one from [Informer.Handle] or [Informer.Subscribe].
type Subscription[T any] struct {
	subscriptionOptions
	of      *Informer[T]
	handler Handler[T]
	called  bool // the handler is; else the subscriber pulls
	queues  *eventqueue.Collection[T]
	closing chan struct{} // closed by Close

	// mu protects the fields below it.
	mu      sync.Mutex
	closed  bool
	err     error // why it was ended; nil if by Close
	working int   // workers, and loops over Events
	done    chan struct{}
}

// Name returns the subscriber's name: see [WithName].
func (s *Subscription[T]) Name() string { return s.name }

// Synced returns a channel that is closed once the subscriber has been told of
// every object that the cache held when it subscribed or, if the cache was not
// filled then, of every object that it was first filled with. An event whose
// handler failed counts as told. It never closes if the subscription is closed
// before.
func (s *Subscription[T]) Synced() <-chan struct{} { return s.queues.Synced() }

// Lag returns the number of objects of which something is queued or being handled.
func (s *Subscription[T]) Lag() int { return s.queues.Len() }

// Stats says how far the subscriber is behind, in objects, events and time, and counts
// what happened to its events: merged, dropped, tried again, given up.
func (s *Subscription[T]) Stats() eventqueue.Stats { return s.queues.Stats() }

// QueueStates says how the queues of single objects are doing, the oldest first, but no
// more than limit: see [eventqueue.Collection.QueueStates].
func (s *Subscription[T]) QueueStates(limit int) []eventqueue.QueueState {
	return s.queues.QueueStates(limit)
}

// CompactBy sets a function that says which of the events that wait are kept: see
// [eventqueue.Collection.CompactBy].
func (s *Subscription[T]) CompactBy(compactor eventqueue.Compactor[T]) {
	s.queues.CompactBy(compactor)
}

// Events iterates over what happens, until ctx ends or the subscription is closed.
// The end of the loop's body acknowledges an event; after break, return or a panic
// in the body it comes again, in the next loop over Events. It is meant for
// subscriptions of [Informer.Subscribe]: with a handler, each event goes to either
// of them.
func (s *Subscription[T]) Events(ctx context.Context) iter.Seq[eventqueue.Event[T]] {
	return func(yield func(eventqueue.Event[T]) bool) {
		s.while(func() { s.queues.Events(ctx)(s.guarded(yield)) })
	}
}

// Close ends the subscription for good. It returns at once, and no further event is
// handed to the handler or a loop's body; [Subscription.Done] says when the one that
// is being handed over or handled has ended. It may be called more than once, and
// from anywhere, the handler included, but from a predicate or a compactor.
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
	if s.observer != nil {
		return s.observed(ctx, event)
	}
	return s.handler.Handle(ctx, event)
}

// report tells of a failure of the handler.
func (s *Subscription[T]) report(ctx context.Context, err *eventqueue.HandlerError) {
	fields := append(about(err), zap.String("subscriber", s.name), zap.Int("attempt", err.Attempt),
		zap.Bool("final", eventqueue.IsPermanent(err.Err)), zap.Error(err.Err))
	if stack := err.Stack(); stack != nil {
		fields = append(fields, zap.ByteString("handlerStack", stack))
	}
	// A stack trace of the logger would be that of this library.
	s.logger.WithOptions(zap.AddStacktrace(zapcore.InvalidLevel)).Error("handler failed", fields...)
	s.tell(ctx, err)
}
