package controller

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

const (
	// DefaultBackoff is how long a key waits after its first failure; each further one
	// doubles it.
	DefaultBackoff = 5 * time.Millisecond

	// DefaultBackoffLimit is how long a key waits at most after a failure.
	DefaultBackoffLimit = 5 * time.Minute

	// DefaultVisibilityTimeout is how long a key waits at most until the caches show
	// what was written for it.
	DefaultVisibilityTimeout = 30 * time.Second
)

// ReconcilerOption configures a [Reconciler]. Every [Option] is one.
type ReconcilerOption interface{ applyToReconciler(*reconcilerOptions) }

type reconcilerOptions struct {
	options
	sources    []source // the secondary ones
	timeout    time.Duration
	visibility time.Duration // 0 or less for not waiting
	ignoreOwn  bool
	resync     time.Duration // of the primary informer; 0 or less for none
	limiter    workqueue.TypedRateLimiter[store.Key]
	metrics    workqueue.MetricsProvider
	observer   Observer // nil for nobody
}

type reconcilerOptionFunc func(*reconcilerOptions)

func (f reconcilerOptionFunc) applyToReconciler(o *reconcilerOptions) { f(o) }

func newReconcilerOptions(opts []ReconcilerOption) reconcilerOptions {
	o := reconcilerOptions{
		options:    defaultOptions(),
		visibility: DefaultVisibilityTimeout,
		limiter:    workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](DefaultBackoff, DefaultBackoffLimit),
	}
	for _, opt := range opts {
		opt.applyToReconciler(&o)
	}
	return o
}

// WithTimeout sets how long one call of the reconcile function may take until its
// context ends, with the cause [ErrTimeout]. The default, and 0 or less, is no limit.
func WithTimeout(d time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.timeout = d })
}

// WithVisibilityTimeout sets how long a key waits at most, after a call that wrote
// something, until the caches show it: see [Wrote]. The key is then reconciled again, since
// the write may have been lost, unless the call returned a [Permanent] error. The default is [DefaultVisibilityTimeout]; with 0 or less
// the key does not wait at all.
func WithVisibilityTimeout(d time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.visibility = d })
}

// WithoutOwnWrites says that what a call reports by [Wrote] does not have its key
// reconciled again when the caches come to show it. Whoever uses it must have left the
// object as it should be: nobody looks at it again until somebody else changes
// something. A change of others between is never kept away: where a list shows an own
// write, and so perhaps hides one, the key is reconciled. The default is to look again, which a call that finds nothing to do ends.
func WithoutOwnWrites() ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.ignoreOwn = true })
}

// WithResync has the key of every object of the primary informer reconciled once more,
// with the priority Low, each time that the period has passed, in case that something
// has changed of which no informer tells. Nothing is asked of the API server. The default,
// and a period that is not positive, is never; less than [informer.MinResync] counts as
// that. For single keys see [Result].
func WithResync(period time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.resync = period })
}

// WithRateLimiter sets how long keys that failed wait until they come again. The
// default is exponential for each key, from [DefaultBackoff] to [DefaultBackoffLimit],
// and limits nothing else. A limiter serves one reconciler only; nil is the default.
func WithRateLimiter(limiter workqueue.TypedRateLimiter[store.Key]) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) {
		if limiter != nil {
			o.limiter = limiter
		}
	})
}

// WithMetrics sets who gets the metrics of the work queue, under the reconciler's name.
// The default is the provider that client-go's work queues have in common: see
// [workqueue.SetProvider].
func WithMetrics(provider workqueue.MetricsProvider) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.metrics = provider })
}
