package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/failure"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"go.uber.org/zap"
)

// Controller runs a handler for the events of a feed. See the package documentation for its
// guarantees.
//
// Create one with [New], and start it with [Controller.Run].
type Controller[T any] struct {
	options
	feed    func(context.Context) error
	queues  *eventqueue.Collection[T]
	handler Handler[T]
	running lifecycle.Running
}

var (
	// ErrRunning means that Run was called while it runs: of a controller, a reconciler, a manager, an
	// elector, a recorder or a member of a group of shards. It is the same value as
	// reflector.ErrRunning, and the wrapping error names what runs.
	ErrRunning = lifecycle.ErrRunning

	// ErrIncomplete means that a required argument of a controller, a reconciler, a manager, an elector,
	// a recorder or a member of a group of shards is nil. The wrapping error names it.
	ErrIncomplete = lifecycle.ErrIncomplete
)

// Runner is what package leader runs while it leads, and package shard for a shard: an informer, a
// manager.Manager, a reconcile.Reconciler, a Controller, or any other value. Its Run must return when ctx has
// ended, and must be callable again. It may finish its work first, unless the cause of the end is [ErrStopNow].
type Runner interface {
	Run(ctx context.Context) error
}

// Handler processes the events of one object. If it returns nil, the queue is acknowledged. If it
// returns an error, the queue is retried, unless the error is [eventqueue.Permanent]. Events that
// [eventqueue.Queue.Each] has acknowledged are not retried. The context ends when the time of
// [WithDrainTimeout] is over, not when the context of Run ends.
type Handler[T any] func(ctx context.Context, queue *eventqueue.Queue[T]) error

// Each returns a handler that calls fn for each event of an object, in order. Each event is
// acknowledged by itself. If fn fails, that event and the later ones are retried, and the earlier
// ones are not. If the error is [eventqueue.Permanent], only the later ones are retried. A nil fn makes a nil
// handler.
func Each[T any](fn func(ctx context.Context, event eventqueue.Event[T]) error) Handler[T] {
	if fn == nil {
		return nil // an error of Run
	}
	return func(ctx context.Context, queue *eventqueue.Queue[T]) error {
		return queue.Each(ctx, func(event eventqueue.Event[T]) error { return fn(ctx, event) })
	}
}

// New returns a controller for a feed and the collection that it fills. The feed is usually the Run
// of a reflector. It fills the collection until its context ends, and then returns soon. Each Run
// of the controller calls the feed.
//
// Nothing starts before Run. A missing argument is an error of Run.
func New[T any](feed func(context.Context) error, queues *eventqueue.Collection[T], handler Handler[T], opts ...Option) *Controller[T] {
	return &Controller[T]{options: newOptions(opts), feed: feed, queues: queues, handler: handler}
}

// Synced returns a channel that is closed once the handler has been called for
// every object of the first list, whether it succeeded or not.
func (c *Controller[T]) Synced() <-chan struct{} {
	if c.queues == nil {
		return nil // never closed: Run returns the reason
	}
	return c.queues.Synced()
}

// Run runs the feed and the workers until ctx ends or the feed returns. It then lets the workers
// finish the queued events, for the time of [WithDrainTimeout], and returns when the last call of
// the handler has returned. If the cause of ctx's end is [ErrStopNow], Run skips this drain: see
// [HardStopContext].
//
// It returns nil if the feed ended without an error and no event is left, and
// [eventqueue.ErrClosed] if the collection was closed.
func (c *Controller[T]) Run(ctx context.Context) error {
	switch {
	case c.feed == nil:
		return fmt.Errorf("feed of controller: %w", ErrIncomplete)
	case c.queues == nil:
		return fmt.Errorf("collection of controller: %w", ErrIncomplete)
	case c.handler == nil:
		return fmt.Errorf("handler of controller: %w", ErrIncomplete)
	}
	end, err := c.running.Begin("controller")
	if err != nil {
		return err
	}
	defer end()

	// Workers outlive ctx, so that they can finish. They keep its values.
	working, stop := lifecycle.WorkContext(ctx)
	feeding, stopFeed := context.WithCancel(ctx)
	var workers sync.WaitGroup
	workers.Go(func() {
		defer stopFeed() // the collection has no consumer any more
		c.queues.Process(working, c.workers, c.handler, func(ctx context.Context, err *eventqueue.HandlerError) {
			failure.Report(ctx, c.logger, "handler failed", err, c.errorHandler)
		})
	})

	defer func() { stop(); workers.Wait() }() // in case the feed panics

	err = c.feed(feeding)

	draining, cancel := context.WithTimeoutCause(working, c.drainTimeout, lifecycle.ErrDrainTimeout)
	drained := c.queues.Drain(draining) == nil
	cause := context.Cause(draining)
	cancel()
	stop()
	workers.Wait()

	if !drained { // handlers that ran at the timeout have ended since
		err = errors.Join(err, c.queues.Left(cause))
	}
	if c.queues.IsClosed() {
		err = errors.Join(err, eventqueue.ErrClosed)
	}
	return err
}

// Option configures a [Controller].
type Option interface{ apply(*options) }

type options struct {
	workers      int
	drainTimeout time.Duration
	logger       *zap.Logger
	errorHandler func(context.Context, error) // nil for none
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{workers: 1, drainTimeout: 10 * time.Second, logger: zap.NewNop()}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithWorkers sets how many objects are handled at the same time. The default is
// 1, as in the series; less counts as 1.
func WithWorkers(n int) Option {
	return optionFunc(func(o *options) { o.workers = n })
}

// WithDrainTimeout sets how long Run continues with the queue after the feed has stopped. The
// default is 10 seconds, well below the 30 seconds that Kubernetes gives a pod to end. 0 or less ends
// the handler's context at once.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.drainTimeout = d })
}

// WithLogger sets the logger, which gets failures of the handler at Error. The default logs
// nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithErrorHandler sets a function that is called with every failure of the handler, as a
// [*eventqueue.HandlerError], on the worker's goroutine. The default does nothing.
func WithErrorHandler(hook func(context.Context, error)) Option {
	return optionFunc(func(o *options) {
		if hook != nil {
			o.errorHandler = hook
		}
	})
}
