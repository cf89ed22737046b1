package informer

import (
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"go.uber.org/zap"
)

// SubscriptionOption configures a [Subscription].
type SubscriptionOption interface {
	applyToSubscription(*subscriptionOptions)
}

type subscriptionOptions struct {
	common
	resync   time.Duration // 0 for none
	queueing []eventqueue.Option
}

type subscriptionOptionFunc func(*subscriptionOptions)

func (f subscriptionOptionFunc) applyToSubscription(o *subscriptionOptions) { f(o) }

// newSubscriptionOptions returns the options of a subscription. It inherits the other options from
// its informer.
func newSubscriptionOptions(of common, opts []SubscriptionOption) subscriptionOptions {
	informer, logger := of.name, of.logger
	of.name, of.logger = "", nil
	of.observed = false // a subscriber's own observers take the place of the informer's
	o := subscriptionOptions{common: of, queueing: []eventqueue.Option{eventqueue.WithPriority(false)}}
	for _, opt := range opts {
		opt.applyToSubscription(&o)
	}
	if o.logger == nil {
		o.logger = logger
	} else {
		o.logger = o.logger.With(zap.String("informer", informer))
	}
	return o
}

// WithQueue passes options to the event queues of a subscriber:
//
//   - [eventqueue.WithCompaction] sets which events are kept for a subscriber that falls behind.
//     The default is [eventqueue.KeepLatest], whose memory does not grow with the lag. For a
//     function of your own see [Subscription.KeepIf].
//   - [eventqueue.WithBackoff] sets how long a failed event waits for its retry.
//   - [eventqueue.WithPriority] sets whether objects with live events go before objects with only
//     initial additions and resyncs. The default for a subscriber is no.
//   - [eventqueue.WithObserver] adds an observer of the queues.
func WithQueue(opts ...eventqueue.Option) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.queueing = append(o.queueing, opts...) })
}

// WithResync queues every object for the subscriber once in each period. The event is a
// Modification of origin [eventqueue.Resync], and its Prior and Object are the same. It is for
// subscribers that compare objects with an external state, which may change without them. The
// resync skips objects with queued events. It affects no other subscriber and sends no request to
// the API server.
//
// The default is never; a period that is not positive means the same. A shorter period than
// a second counts as a second. The period runs only while Run does.
func WithResync(period time.Duration) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) {
		o.resync = 0
		if period > 0 {
			o.resync = max(period, time.Second)
		}
	})
}
