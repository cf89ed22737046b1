package informer

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/guard"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultDrainTimeout is well below the 30 seconds that Kubernetes gives a pod to end.
const defaultDrainTimeout = 10 * time.Second

// Option configures an informer.
type Option interface{ applyTo(*options) }

// CommonOption configures an informer or a subscription.
type CommonOption interface {
	Option
	SubscriptionOption
}

type options struct {
	common
	reflector    []reflector.Option
	drainTimeout time.Duration
	staleness    time.Duration // 0 or less means no limit
	guarding     *guard.Reporter
	get          func(context.Context, store.Key) (metav1.Object, error)
}

// common has the options of both informers and subscriptions.
type common struct {
	name         string
	logger       *zap.Logger                  // its lines name the informer
	errorHandler func(context.Context, error) // nil for none
	observers    []Observer
	observed     bool // true if an option here sets observers, which are then not inherited
}

type optionFunc func(*options)

func (f optionFunc) applyTo(o *options) { f(o) }

type commonOptionFunc func(*common)

func (f commonOptionFunc) applyTo(o *options) { f(&o.common) }

func (f commonOptionFunc) applyToSubscription(o *subscriptionOptions) { f(&o.common) }

func newOptions(name string, opts []Option) options {
	o := options{
		common: common{
			name:   name,
			logger: zap.NewNop(),
		},
		drainTimeout: defaultDrainTimeout,
		staleness:    defaultStaleness,
	}
	for _, opt := range opts {
		opt.applyTo(&o)
	}
	o.logger = o.logger.With(zap.String("informer", o.name))
	return o
}

// reflectorOptions returns the options of the reflector. Options that the user gave for the
// reflector take precedence.
func (o options) reflectorOptions() []reflector.Option {
	own := []reflector.Option{reflector.WithName(o.name), reflector.WithLogger(o.logger), reflector.WithErrorHandler(o.errorHandler)}
	return append(own, o.reflector...)
}

// WithReflector passes options to the reflector, such as
// [reflector.WithLabelSelector].
func WithReflector(opts ...reflector.Option) Option {
	return optionFunc(func(o *options) { o.reflector = append(o.reflector, opts...) })
}

// WithGet sets the function by which [Informer.Gone] asks the server for an object, past every cache:
//
//	informer.WithGet(func(ctx context.Context, key store.Key) (metav1.Object, error) {
//		return clientset.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
//	})
//
// It returns an error of reason NotFound if there is no object. Set it if something selects objects
// without the knowledge of the informer, such as the options of a ListWatch or of an informer of
// client-go. Gone then asks for every key. The default is the client of the reflector, which is asked
// unless the cache is proof: see [reflector.KubernetesResourceReflector.Covers].
func WithGet(get func(ctx context.Context, key store.Key) (metav1.Object, error)) Option {
	return optionFunc(func(o *options) { o.get = get })
}

// WithDrainTimeout sets how long handlers may process queued events after the reflector has
// stopped. The default is 10 seconds. 0 ends their context at once.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.drainTimeout = d })
}

// WithName sets the name of an informer or of a subscriber, for errors and logs. The default for an
// informer is the Go type of the objects, such as "*v1.Pod". The default for a subscriber is its
// number, such as "#1". The reflector has the informer's name.
func WithName(name string) CommonOption {
	return commonOptionFunc(func(o *common) { o.name = name })
}

// WithLogger sets the logger of an informer and its reflector, or of a subscription. A subscription
// otherwise has the logger of its informer. Each line has the informer's name, a resource version
// and, if it is about an object, the key. There is one line when the cache is filled, one for each
// failure, and one when the watch has recovered. Lines about events and renewed watches are at
// Debug. The default logs nothing.
func WithLogger(logger *zap.Logger) CommonOption {
	return commonOptionFunc(func(o *common) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithErrorHandler sets a function that is called with every failure, on the goroutine of the
// failure. A failure of the reflector is a [*reflector.Error], a failure of a handler an
// [*eventqueue.HandlerError]. The error handler of a subscription gets the failures of its handler;
// the error handler of the informer then does not. A panic in the error handler is logged and has
// no other effect. The default does nothing.
func WithErrorHandler(hook func(context.Context, error)) CommonOption {
	return commonOptionFunc(func(o *common) {
		if hook != nil {
			o.errorHandler = hook
		}
	})
}

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

// WithQueue passes options to the event queues of a subscriber, such as [eventqueue.WithBackoff]. Their
// defaults are those of package eventqueue, but for [eventqueue.WithPriority]: for a subscriber it is no.
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
