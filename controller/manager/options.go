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
	// DefaultAnswerLimit is how long a check waits for the answer of a member. The kubelet
	// waits a second unless a probe has another timeoutSeconds: give it more than this, or
	// set less by [WithAnswerLimit], and the answer of a check names the member.
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

// route is something else that the server serves.
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

// WithLogger sets the logger of the manager and of all that is made by it: informers,
// reconcilers, the election. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithKlog has [New] route all that client-go logs to the manager's logger: see [RouteKlog].
// That is so for the whole process, and stays so. The default leaves klog as it is, which
// writes to standard error.
func WithKlog() Option {
	return optionFunc(func(o *options) { o.klog = true })
}

// WithScheme sets the scheme that says which kind a Go type is: see [Informer]. The
// default is that of client-go, which has all kinds that Kubernetes itself has.
func WithScheme(scheme *runtime.Scheme) Option {
	return optionFunc(func(o *options) {
		if scheme != nil {
			o.scheme = scheme
		}
	})
}

// WithRESTMapper sets who says which resource a kind is, such as a mapper that keeps on
// disk what the server said. The default is one for the manager that keeps it in memory.
func WithRESTMapper(mapper meta.RESTMapper) Option {
	return optionFunc(func(o *options) { o.mapper = mapper })
}

// WithElection has what is led run only in the process that holds a lock, such as a
// [resourcelock.LeaseLock]: see package leader. Without it every process leads.
func WithElection(lock resourcelock.Interface, opts ...leader.Option) Option {
	return optionFunc(func(o *options) { o.lock, o.elect = lock, opts })
}

// WithStuckAfter sets how long a call of a function given to [Reconcile] may take until
// /healthz fails. It should be far longer than any call that is well. The default is
// [DefaultStuckAfter]; with 0 or less it may take for ever.
func WithStuckAfter(d time.Duration) Option {
	return optionFunc(func(o *options) { o.stuck = d })
}

// WithAnswerLimit sets how long a check waits for the answer of a member, until that
// counts as dead: what a member does to answer is to look at a few fields. It should be
// shorter than the kubelet waits. The default is [DefaultAnswerLimit], also for 0 or less.
func WithAnswerLimit(d time.Duration) Option {
	return optionFunc(func(o *options) {
		if d > 0 {
			o.answer = d
		}
	})
}

// WithServer has Run serve /healthz and /readyz at a TCP address, such as ":8081". With
// port 0 the system chooses one: see [Manager.Address].
func WithServer(address string) Option {
	return optionFunc(func(o *options) { o.address = address })
}

// WithHandler has the server of [WithServer] serve something else as well, such as
// metrics. The pattern is that of [http.ServeMux]; with one that is no pattern, or is there
// already, Run panics as that does.
func WithHandler(pattern string, handler http.Handler) Option {
	return optionFunc(func(o *options) { o.routes = append(o.routes, route{pattern, handler}) })
}
