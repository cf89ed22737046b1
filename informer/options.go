package informer

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"go.uber.org/zap"
)

// DefaultDrainTimeout is how long an informer that is stopped lets handlers go on
// with what is queued. It is well below the 30 seconds that Kubernetes gives a pod
// to end.
const DefaultDrainTimeout = 10 * time.Second

// Option configures an informer.
type Option interface{ apply(*options) }

type options struct {
	reflector    []reflector.Option
	drainTimeout time.Duration
	logger       *zap.Logger
	errorHook    func(context.Context, error)
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{
		drainTimeout: DefaultDrainTimeout,
		logger:       zap.NewNop(),
		errorHook:    func(context.Context, error) {},
	}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// reflectorOptions returns the options of the reflector: those that the user gave
// for it win.
func (o options) reflectorOptions() []reflector.Option {
	own := []reflector.Option{reflector.WithLogger(o.logger), reflector.WithErrorHook(o.errorHook)}
	return append(own, o.reflector...)
}

// WithReflector passes options to the reflector, such as
// [reflector.WithLabelSelector].
func WithReflector(opts ...reflector.Option) Option {
	return optionFunc(func(o *options) { o.reflector = append(o.reflector, opts...) })
}

// WithDrainTimeout sets how long Run lets handlers go on with what is queued after
// the reflector has stopped. The default is [DefaultDrainTimeout]; 0 ends their
// context at once.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.drainTimeout = d })
}

// WithLogger sets the logger of the informer and its reflector. The default logs
// nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithErrorHook sets a function that is called with every failure of the reflector,
// a [*reflector.Error], and of a handler, a [*eventqueue.HandlerError], from the
// goroutine on which it happened. The default does nothing.
func WithErrorHook(hook func(context.Context, error)) Option {
	return optionFunc(func(o *options) {
		if hook != nil {
			o.errorHook = hook
		}
	})
}

// SubscriptionOption configures a [Subscription].
type SubscriptionOption interface{ apply(*subscriptionOptions) }

type subscriptionOptions struct {
	name       string
	compaction eventqueue.Compaction
}

type subscriptionOptionFunc func(*subscriptionOptions)

func (f subscriptionOptionFunc) apply(o *subscriptionOptions) { f(o) }

func newSubscriptionOptions(opts []SubscriptionOption) subscriptionOptions {
	o := subscriptionOptions{compaction: eventqueue.KeepLatest}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithName sets the name of the subscriber for errors and logs. The default is its
// number, such as "#1".
func WithName(name string) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.name = name })
}

// WithCompaction says which events are kept for a subscriber that falls behind.
// The default is [eventqueue.KeepLatest], which needs no more memory however far
// it does; [eventqueue.KeepAll] tells of every state in between.
func WithCompaction(c eventqueue.Compaction) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.compaction = c })
}
