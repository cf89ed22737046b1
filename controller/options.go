package controller

import (
	"context"
	"time"

	"go.uber.org/zap"
)

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
