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
	o := options{handlers: []informer.SubscriptionOption{informer.WithCompaction(eventqueue.KeepAll)}}
	for _, opt := range opts {
		opt.applyTo(&o)
	}
	return o
}

// WithInformer passes options to the informer that [NewSharedIndexInformer] makes, such
// as [informer.WithReflector]. The failures of its reflector go to the handler of
// SetWatchErrorHandler, and not to a hook of [informer.WithErrorHook], which is told of
// those of event handlers. It has no meaning for [AsSharedIndexInformer].
func WithInformer(opts ...informer.Option) Option {
	return optionFunc(func(o *options) { o.informer = append(o.informer, opts...) })
}

// WithHandlers passes options to the subscription of every event handler that is added.
// The most useful one is informer.WithCompaction(eventqueue.KeepLatest): memory is then
// bounded however slow a handler is, and it is no longer told of each state of an object,
// nor of objects that came and went unseen.
func WithHandlers(opts ...informer.SubscriptionOption) Option {
	return optionFunc(func(o *options) { o.handlers = append(o.handlers, opts...) })
}

// WithResync sets the resync period of event handlers that do not ask for one of their
// own: see [informer.WithResync]. The default is no resync.
func WithResync(period time.Duration) Option {
	return optionFunc(func(o *options) { o.resync = period })
}
