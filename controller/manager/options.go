package manager

import (
	"net/http"
	"time"

	"github.com/kubereflector/kubereflector/controller/leader"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// DefaultAnswerLimit is how long a check waits for the answer of a member. The kubelet waits
	// one second unless the probe sets timeoutSeconds. Set timeoutSeconds above this limit, or
	// lower the limit with [WithAnswerLimit]. Then the answer of a check names the member.
	DefaultAnswerLimit = 5 * time.Second

	// DefaultStuckAfter is how long a call of a reconcile function may take until the
	// process counts as dead.
	DefaultStuckAfter = 15 * time.Minute
)

// Option configures a [Manager].
type Option interface{ apply(*options) }

type options struct {
	logger  *zap.Logger
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	lock    resourcelock.Interface
	elect   []leader.Option
	stuck   time.Duration
	answer  time.Duration
	address string
	klog    bool
	routes  []route
}

// route is a further handler of the server.
type route struct {
	pattern string
	handler http.Handler
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{logger: zap.NewNop(), scheme: scheme.Scheme, stuck: DefaultStuckAfter, answer: DefaultAnswerLimit}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithLogger sets the logger of the manager, and of the informers, reconcilers and the election
// that it makes. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithKlog makes [New] send the log lines of client-go to the manager's logger: see [RouteKlog].
// This affects the whole process for the rest of its life. By default klog writes to standard
// error.
func WithKlog() Option {
	return optionFunc(func(o *options) { o.klog = true })
}

// WithScheme sets the scheme that maps a Go type to its kind: see [Informer]. The default is
// client-go's scheme, which has all kinds of Kubernetes itself.
func WithScheme(scheme *runtime.Scheme) Option {
	return optionFunc(func(o *options) {
		if scheme != nil {
			o.scheme = scheme
		}
	})
}

// WithRESTMapper sets the mapper from a kind to its resource, such as one that caches discovery on
// disk. The default is a mapper for the manager that caches discovery in memory.
func WithRESTMapper(mapper meta.RESTMapper) Option {
	return optionFunc(func(o *options) { o.mapper = mapper })
}

// WithElection makes led members run only in the process that holds a lock, such as a
// [resourcelock.LeaseLock]: see package leader. Without it every process leads.
func WithElection(lock resourcelock.Interface, opts ...leader.Option) Option {
	return optionFunc(func(o *options) { o.lock, o.elect = lock, opts })
}

// WithStuckAfter sets how long a call of a function given to [Reconcile] may take before /healthz
// fails. It should be far longer than any healthy call. The default is [DefaultStuckAfter]. 0 or
// less means no limit.
func WithStuckAfter(d time.Duration) Option {
	return optionFunc(func(o *options) { o.stuck = d })
}

// WithAnswerLimit sets how long a check waits for the answer of a member before the member counts
// as dead. An answer needs only a look at a few fields. The limit should be shorter than the
// timeout of the kubelet. The default is [DefaultAnswerLimit], also for 0 or less.
func WithAnswerLimit(d time.Duration) Option {
	return optionFunc(func(o *options) {
		if d > 0 {
			o.answer = d
		}
	})
}

// WithServer makes Run serve /healthz and /readyz at a TCP address, such as ":8081". With port 0
// the system chooses a port: see [Manager.Address].
func WithServer(address string) Option {
	return optionFunc(func(o *options) { o.address = address })
}

// WithHandler adds a handler to the server of [WithServer], such as metrics. The pattern is a
// pattern of [http.ServeMux]. Run panics, as ServeMux does, if the pattern is invalid or already
// used.
func WithHandler(pattern string, handler http.Handler) Option {
	return optionFunc(func(o *options) { o.routes = append(o.routes, route{pattern, handler}) })
}
