package informer

import (
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"go.uber.org/zap"
)

// MinResync is the shortest period of [WithResync].
const MinResync = time.Second

// SubscriptionOption configures a [Subscription].
type SubscriptionOption interface {
	applyToSubscription(*subscriptionOptions)
}

type subscriptionOptions struct {
	common
	resync   time.Duration // 0 for none
	limit    int64         // of bytes; 0 for none
	queueing []eventqueue.Option
}

type subscriptionOptionFunc func(*subscriptionOptions)

func (f subscriptionOptionFunc) applyToSubscription(o *subscriptionOptions) { f(o) }

// newSubscriptionOptions returns the options of a subscription of an informer, from
// which it has what it does not say itself.
func newSubscriptionOptions(of common, opts []SubscriptionOption) subscriptionOptions {
	informer, logger := of.name, of.logger
	of.name, of.logger = "", nil
	of.observed = false // a subscriber's own observers take the place of the informer's
	o := subscriptionOptions{common: of, queueing: []eventqueue.Option{eventqueue.WithCompaction(eventqueue.KeepLatest)}}
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

// queueOption passes an option to the subscriber's collection.
func queueOption(opt eventqueue.Option) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.queueing = append(o.queueing, opt) })
}

// WithCompaction says which events are kept for a subscriber that falls behind.
// The default is [eventqueue.KeepLatest], which needs no more memory however far
// it does; [eventqueue.KeepAll] tells of every state in between. For a function of
// your own see [Subscription.CompactBy].
func WithCompaction(c eventqueue.Compaction) SubscriptionOption {
	return queueOption(eventqueue.WithCompaction(c))
}

// WithBackoff sets how long an event that failed waits until it comes again: about
// base after the first failure, twice as long after each further one, never more than
// limit. The defaults, and what else there is to know, are those of
// [eventqueue.WithBackoff].
func WithBackoff(base, limit time.Duration) SubscriptionOption {
	return queueOption(eventqueue.WithBackoff(base, limit))
}

// WithLiveFirst says whether objects of which there is news go before those of which
// only initial additions and resyncs wait. One in eight is then still one of the
// latter. The default is no.
func WithLiveFirst(on bool) SubscriptionOption {
	return queueOption(eventqueue.WithLiveFirst(on))
}

// WithResync has every object handed to the subscriber once more each time that the
// period has passed, as a Modification of origin [eventqueue.Resync] whose Prior and
// Object are the same: for those who compare the objects with something that may change
// without them. Objects of which something waits are left out. No other subscriber
// hears of it, and nothing is asked of the API server.
//
// The default, and a period that is not positive, is never; less than [MinResync]
// counts as that. The time runs while Run does.
func WithResync(period time.Duration) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) {
		o.resync = 0
		if period > 0 {
			o.resync = max(period, MinResync)
		}
	})
}
