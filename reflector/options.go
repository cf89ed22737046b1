package reflector

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/features"
)

// defaultPageSize is the default number of objects in one page of a list.
const defaultPageSize = 500

// Option configures a reflector.
type Option interface{ apply(*options) }

type options struct {
	name          string
	logger        *zap.Logger
	pageSize      int64
	alwaysPage    bool
	watchList     bool
	listsFirst    bool
	labelSelector string
	fieldSelector string
	labels        labels.Selector // the parsed labelSelector; nil selects everything
	fields        fields.Selector // the parsed fieldSelector; nil selects everything
	shards        *stream.Shards  // nil selects everything
	errorHandler  func(context.Context, error)
	retry         func(error) bool
	observers     []Observer
	err           error // joined errors of invalid options
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(name string, opts []Option) options {
	o := options{
		name:      name,
		logger:    zap.NewNop(),
		pageSize:  defaultPageSize,
		watchList: features.FeatureGates().Enabled(features.WatchListClient),
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

// WithLogger sets the logger. The reflector logs lists and watches at debug level, and retried
// failures as warnings. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithPageSize sets the number of objects in one page of a list. Small pages cost the API server
// less memory; large pages are faster. 0 requests all objects at once; a negative size counts as 0.
//
// Without this option the page size is 500. The reflector then omits it where a limit
// would keep the server from answering from its watch cache. With this option every list requests
// pages. A server with a watch cache before Kubernetes 1.34 still sends the first list as a whole:
// that list requests version "0", which means the current content of the cache. Watch-lists have no
// pages.
func WithPageSize(objects int) Option {
	return optionFunc(func(o *options) {
		o.pageSize, o.alwaysPage = int64(max(objects, 0)), true
	})
}

// WithoutWatchList makes the reflector list instead of requesting watch-lists. A watch-list is a
// watch that begins with all objects (KEP-3157). Watch-lists are the default, because they cost the
// server and this program less memory.
//
// The reflector detects servers without watch-lists (reflector-R7), and clients and most test doubles
// without them; client-go's feature gate WatchListClient turns them off, too. A double that is not recognized costs half a
// minute, unless it has the method IsWatchListSemanticsUnSupported.
func WithoutWatchList() Option {
	return optionFunc(func(o *options) { o.watchList = false })
}

// WithInitialList makes each Run begin with a list, not older than the store, although it could resume
// from the version of the store. It is for a store that was filled through another version of the kind, or
// under an earlier definition: objects then differ although their resource versions do not, and no watch
// would say so. Unchanged objects still cause no change.
func WithInitialList() Option {
	return optionFunc(func(o *options) { o.listsFirst = true })
}

// WithLabelSelector restricts the reflector to objects whose labels match. The reflector deletes an
// object from the store when its labels stop matching. A nil selector matches everything. With a
// selector that matches nothing, Run returns [ErrNothingSelected].
func WithLabelSelector(selector labels.Selector) Option {
	return optionFunc(func(o *options) {
		if o.labelSelector, o.labels = o.selector(selector), nil; o.labelSelector != "" {
			o.labels = selector
		}
	})
}

// WithFieldSelector restricts the reflector to objects whose fields match. The resource determines
// which fields a selector may use. The reflector deletes an object from the store when its fields
// stop matching. A nil selector matches everything. With a selector that matches nothing, Run
// returns [ErrNothingSelected].
func WithFieldSelector(selector fields.Selector) Option {
	return optionFunc(func(o *options) {
		if o.fieldSelector, o.fields = o.selector(selector), nil; o.fieldSelector != "" {
			o.fields = selector
		}
	})
}

// selector returns a selector in the text form of the API. A selector that matches nothing and one
// that matches everything have the same text, so selector records [ErrNothingSelected] for the
// former.
func (o *options) selector(selector interface {
	Empty() bool
	String() string
}) string {
	if stream.IsNil(selector) {
		return ""
	}
	text := selector.String()
	if text == "" && !selector.Empty() {
		o.err = errors.Join(o.err, ErrNothingSelected)
	}
	return text
}

// WithErrorHandler sets a function that the reflector calls with each handled failure, as an
// [*Error]. Run's goroutine calls the error handler, so the error handler must be quick. The
// ordinary expiry of a resource version is not a failure. The default does nothing.
func WithErrorHandler(hook func(context.Context, error)) Option {
	return optionFunc(func(o *options) {
		if hook != nil {
			o.errorHandler = hook
		}
	})
}

// WithRetry sets a function that decides which failures the reflector retries. If retry returns
// false, Run returns the error. The reflector calls retry for every failure that interrupts it,
// with an [*Error], but not for single objects that the store rejects, nor for a probe after a broken
// watch that the server answers with an error: a server that starts may refuse it. The default retries
// everything.
func WithRetry(retry func(error) bool) Option {
	return optionFunc(func(o *options) {
		if retry != nil {
			o.retry = retry
		}
	})
}
