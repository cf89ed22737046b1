package reflector

import (
	"context"
	"errors"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/features"
)

// DefaultPageSize is the number of objects that a list asks for at a time.
const DefaultPageSize = 500

// Option configures a reflector.
type Option interface{ apply(*options) }

type options struct {
	name          string
	logger        *zap.Logger
	pageSize      int64
	alwaysPage    bool
	watchList     bool
	labelSelector string
	fieldSelector string
	labels        labels.Selector // what labelSelector says; nil for everything
	fields        fields.Selector // what fieldSelector says; nil for everything
	shards        *shardSet       // nil for everything
	errorHook     func(context.Context, error)
	retry         func(error) bool
	observer      Observer // nil for nobody
	recorder      *Recorder
	err           error // what is wrong with the options
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(name string, opts []Option) options {
	o := options{
		name:      name,
		logger:    zap.NewNop(),
		pageSize:  DefaultPageSize,
		watchList: features.FeatureGates().Enabled(features.WatchListClient),
		errorHook: func(context.Context, error) {},
		retry:     func(error) bool { return true },
	}
	for _, opt := range opts {
		opt.apply(&o)
	}
	o.logger = o.logger.With(zap.String("reflector", o.name))
	return o
}

// WithName sets the name that errors and logs use. The default is the Go type of
// the objects, such as "*v1.Pod".
func WithName(name string) Option {
	return optionFunc(func(o *options) { o.name = name })
}

// WithLogger sets the logger: lists and watches at debug level, failures that are
// retried as warnings. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithPageSize sets how many objects a list asks for at a time: many small pages
// cost the API server less memory, few large ones are faster. 0 asks for everything
// at once; a negative size counts as 0.
//
// Without this option it is [DefaultPageSize], and is left out where it would keep
// the server from answering from its watch cache. With it every list asks for pages.
// A server with a watch cache sends the first list as a whole all the same: it asks
// for whatever the cache has, at version "0". Watch-lists have no pages.
func WithPageSize(objects int) Option {
	return optionFunc(func(o *options) {
		o.pageSize, o.alwaysPage = int64(max(objects, 0)), true
	})
}

// WithoutWatchList makes the reflector list instead of asking for a watch that
// begins with all objects (KEP-3157), which is the default: it costs the server and
// this program less memory. Servers and clients that do not know such watches are
// found out without this option; a double of your own, one that is not in a package
// named fake, takes half a minute to be, unless it has the method
// IsWatchListSemanticsUnSupported as client-go's have. So does client-go's feature
// gate WatchListClient turn watch-lists off, by KUBE_FEATURE_WatchListClient=false.
func WithoutWatchList() Option {
	return optionFunc(func(o *options) { o.watchList = false })
}

// WithLabelSelector restricts the reflector to objects whose labels match. An
// object that stops matching is deleted from the store. A nil selector matches
// everything; with one that matches nothing, Run returns [ErrNothingSelected].
func WithLabelSelector(selector labels.Selector) Option {
	return optionFunc(func(o *options) {
		if o.labelSelector, o.labels = o.selector(selector), nil; o.labelSelector != "" {
			o.labels = selector
		}
	})
}

// WithFieldSelector restricts the reflector to objects whose fields match; which
// fields can be selected depends on the resource. An object that stops matching
// is deleted from the store. A nil selector matches everything; with one that
// matches nothing, Run returns [ErrNothingSelected].
func WithFieldSelector(selector fields.Selector) Option {
	return optionFunc(func(o *options) {
		if o.fieldSelector, o.fields = o.selector(selector), nil; o.fieldSelector != "" {
			o.fields = selector
		}
	})
}

// selector returns a selector as the API takes it. One that matches nothing has the
// same text as one that matches everything.
func (o *options) selector(selector interface {
	Empty() bool
	String() string
}) string {
	if isNil(selector) {
		return ""
	}
	text := selector.String()
	if text == "" && !selector.Empty() {
		o.err = errors.Join(o.err, ErrNothingSelected)
	}
	return text
}

// WithErrorHook sets a function that is called with everything that goes wrong and
// is dealt with, an [*Error] each time, on the goroutine of Run: it should be quick. A resource
// version that expired after a while is nothing wrong. The default does nothing.
func WithErrorHook(hook func(context.Context, error)) Option {
	return optionFunc(func(o *options) {
		if hook != nil {
			o.errorHook = hook
		}
	})
}

// WithRetry sets which failures are retried: where retry returns false, Run
// returns the error. It is asked about everything that interrupts the reflector,
// an [*Error] each time, but not about single objects that cannot be stored. The
// default retries everything.
func WithRetry(retry func(error) bool) Option {
	return optionFunc(func(o *options) {
		if retry != nil {
			o.retry = retry
		}
	})
}
