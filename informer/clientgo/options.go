package clientgo

import (
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
)

// Option configures a [SharedIndexInformer].
type Option interface{ applyTo(*options) }

type options struct {
	informer []informer.Option
	handlers []informer.SubscriptionOption
	resync   time.Duration
}

type optionFunc func(*options)

func (f optionFunc) applyTo(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{handlers: []informer.SubscriptionOption{informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll))}}
	for _, opt := range opts {
		opt.applyTo(&o)
	}
	return o
}

// WithInformer passes options to the informer that [NewTyped] makes, such as
// [informer.WithReflector]. Failures of its reflector go to the handler of SetWatchErrorHandler. A
// hook of [informer.WithErrorHandler] gets only the failures of event handlers. The option has no
// effect on [AsSharedIndexInformer].
func WithInformer(opts ...informer.Option) Option {
	return optionFunc(func(o *options) { o.informer = append(o.informer, opts...) })
}

// WithHandlers passes options to the subscription of every event handler. The most useful one is
// informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepLatest)): it bounds the memory of a
// slow handler. The handler then no longer gets each state of an object, and misses objects that
// were created and deleted before it saw them.
func WithHandlers(opts ...informer.SubscriptionOption) Option {
	return optionFunc(func(o *options) { o.handlers = append(o.handlers, opts...) })
}

// WithResync sets the resync period of event handlers without their own period: see
// [informer.WithResync]. The default is no resync.
func WithResync(period time.Duration) Option {
	return optionFunc(func(o *options) { o.resync = period })
}
