package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/eventqueue"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Feed fills an event-queue collection until ctx ends. A reflector is one. Run
// must return soon after ctx ended, and must be callable again if the
// controller's Run is to be.
type Feed interface {
	Run(ctx context.Context) error
}

// Controller runs a handler on the events that a feed brings. See the package
// documentation for what it guarantees.
//
// Create one with [New], and make it work with [Controller.Run].
type Controller[T any] struct {
	options
	feed    Feed
	queues  *eventqueue.Collection[T]
	handler Handler[T]
	running atomic.Bool
}

var (
	// ErrDrainTimeout is the cause of an [*eventqueue.DrainError] when the time
	// for finishing was over.
	ErrDrainTimeout = errors.New("time to finish is over")

	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("controller is running already")

	// ErrIncomplete means that a controller was made without a feed, a
	// collection or a handler.
	ErrIncomplete = errors.New("controller needs a feed, a collection and a handler: pass all three to New")
)

// New returns a controller of what a feed puts into a collection. Nothing happens
// until Run is called; something missing is reported by Run as well.
func New[T any](feed Feed, queues *eventqueue.Collection[T], handler Handler[T], opts ...Option) *Controller[T] {
	return &Controller[T]{options: newOptions(opts), feed: feed, queues: queues, handler: handler}
}

// Synced returns a channel that is closed once the handler has been called for
// every object of the first list, whether it succeeded or not.
func (c *Controller[T]) Synced() <-chan struct{} {
	if c.queues == nil {
		return nil // it never is: Run says why
	}
	return c.queues.Synced()
}

// Run runs the feed and the workers until ctx ends or the feed returns. It then
// lets the workers finish what is queued, for as long as [WithDrainTimeout] says,
// and returns when the last call of the handler has returned. If the cause of ctx's end
// is [ErrHalt], there is no time to finish; see [WithHalt] as well.
//
// It returns nil if the feed ended without an error and nothing was left to do, and
// [eventqueue.ErrClosed] if somebody closed the collection.
func (c *Controller[T]) Run(ctx context.Context) error {
	if c.feed == nil || c.queues == nil || c.handler == nil {
		return ErrIncomplete
	}
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.running.Store(false)

	c.queues.LiveFirst(c.liveFirst)
	// Workers outlive ctx, so that they can finish; its values are theirs.
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer onHalt(ctx, func() { stop(ErrHalt) })()
	feeding, stopFeed := context.WithCancel(ctx)
	var closed error
	var workers sync.WaitGroup
	workers.Go(func() {
		defer stopFeed() // nobody takes any more what it brings
		c.queues.Process(working, c.workers, eventqueue.Reporting(c.handler, func(ctx context.Context, err *eventqueue.HandlerError) {
			c.report(ctx, c.logger.With(zap.Stringer("key", err.Key)), "handler failed", err)
		}))
		if working.Err() == nil {
			closed = eventqueue.ErrClosed
		}
	})

	defer func() { stop(nil); workers.Wait() }() // should the feed panic

	err := c.feed.Run(feeding)

	draining, cancel := context.WithTimeoutCause(working, c.drainTimeout, ErrDrainTimeout)
	left := c.queues.Drain(draining)
	cause := context.Cause(draining)
	cancel()
	stop(nil)
	workers.Wait()
	if left != nil {
		// Handlers that were running when the time was over have ended since.
		over, end := context.WithCancelCause(context.WithoutCancel(ctx))
		end(cause)
		left = c.queues.Drain(over)
	}
	return errors.Join(err, left, closed)
}

// report tells of a failure of the handler. A stack trace of the logger would be that of
// this library, so a line has only that of a panic.
func (o *options) report(ctx context.Context, logger *zap.Logger, message string, err *eventqueue.HandlerError, more ...zap.Field) {
	fields := append(more, zap.String("resourceVersion", err.ResourceVersion), zap.Int("attempt", err.Attempt),
		zap.Bool("final", eventqueue.IsPermanent(err.Err)), zap.Error(err.Err))
	if stack := err.Stack(); stack != nil {
		fields = append(fields, zap.ByteString("handlerStack", stack))
	}
	logger.WithOptions(zap.AddStacktrace(zapcore.InvalidLevel)).Error(message, fields...)
	defer func() {
		// What the hook does wrong must not change what becomes of the event.
		if value := recover(); value != nil {
			logger.Error("error hook panicked", zap.String("resourceVersion", err.ResourceVersion), zap.Any("panic", value), zap.Stack("stack"))
		}
	}()
	if o.errorHook != nil {
		o.errorHook(ctx, err)
	}
}
