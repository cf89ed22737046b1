package controller

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

const (
	// DefaultBackoff is the back-off of a key after its first failure. Each further failure doubles
	// it.
	DefaultBackoff = 5 * time.Millisecond

	// DefaultBackoffLimit is the longest back-off of a key.
	DefaultBackoffLimit = 5 * time.Minute

	// DefaultVisibilityTimeout is how long a key waits at most until the caches show its writes.
	DefaultVisibilityTimeout = 30 * time.Second
)

// ReconcilerOption configures a [Reconciler]. Every [Option] is one.
type ReconcilerOption interface{ applyToReconciler(*reconcilerOptions) }

type reconcilerOptions struct {
	options
	sources    []source // the secondary ones
	timeout    time.Duration
	visibility time.Duration // 0 or less means no wait
	byPriority bool          // live events go first
	ignoreOwn  bool
	resync     time.Duration // of the primary informer; 0 or less for none
	limiter    workqueue.TypedRateLimiter[store.Key]
	metrics    workqueue.MetricsProvider
	observer   Observer // nil for none
}

type reconcilerOptionFunc func(*reconcilerOptions)

func (f reconcilerOptionFunc) applyToReconciler(o *reconcilerOptions) { f(o) }

func newReconcilerOptions(opts []ReconcilerOption) reconcilerOptions {
	o := reconcilerOptions{
		options:    defaultOptions(),
		visibility: DefaultVisibilityTimeout,
		byPriority: true,
		limiter:    workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](DefaultBackoff, DefaultBackoffLimit),
	}
	for _, opt := range opts {
		opt.applyToReconciler(&o)
	}
	return o
}

// WithPriority sets whether keys with live events are reconciled before keys with only initial
// additions or resyncs. The default is yes; one key in eight is then still one of the latter. It
// does not affect the priority of a [Result]. For a controller, see [eventqueue.WithPriority].
func WithPriority(on bool) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.byPriority = on })
}

// WithTimeout sets how long one call of the reconcile function may take. Its context then ends with
// the cause [ErrTimeout]. The default is no limit; 0 or less means the same.
func WithTimeout(d time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.timeout = d })
}

// WithVisibilityTimeout sets how long a key waits at most, after a call with a write, until the
// caches show the write: see [Wrote]. The key is then reconciled again, since the write may have
// been lost, unless the call returned a [Permanent] error. The default is
// [DefaultVisibilityTimeout]. With 0 or less the key does not wait.
func WithVisibilityTimeout(d time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.visibility = d })
}

// WithoutOwnWrites ignores the events of writes that calls report by [Wrote]: they trigger no
// reconcile. Each call must then leave the object in its final state, because the key is not
// reconciled again until another writer changes something. Changes of other writers are never
// ignored: if a list shows an own write, it may hide another change, so the key is reconciled. By
// default a reconcile follows each own write, and ends when it finds no work.
func WithoutOwnWrites() ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.ignoreOwn = true })
}

// WithResync queues the key of every object of the primary informer once in each period, with the
// priority Low. It covers changes that no informer sees. It sends no request to the API server. The
// default is never; a period that is not positive means the same. A shorter period than
// [informer.MinResync] counts as MinResync. For single keys see [Result].
func WithResync(period time.Duration) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.resync = period })
}

// WithRateLimiter sets the back-off of failed keys. The default is exponential for each key, from
// [DefaultBackoff] to [DefaultBackoffLimit], without an overall limit. A limiter serves only one
// reconciler; nil means the default.
func WithRateLimiter(limiter workqueue.TypedRateLimiter[store.Key]) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) {
		if limiter != nil {
			o.limiter = limiter
		}
	})
}

// WithMetrics sets the provider for metrics of the work queue, which have the reconciler's name.
// The default is the common provider of client-go's work queues: see [workqueue.SetProvider].
func WithMetrics(provider workqueue.MetricsProvider) ReconcilerOption {
	return reconcilerOptionFunc(func(o *reconcilerOptions) { o.metrics = provider })
}
