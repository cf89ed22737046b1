package manager

import (
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/klogging"
	"github.com/kubereflector/kubereflector/reflector/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// answerLimit is how long a check waits for the answer of a member before the member counts as
	// dead.
	answerLimit = 5 * time.Second

	// defaultStuckAfter is the default of [WithStuckAfter].
	defaultStuckAfter = 15 * time.Minute
)

// Option configures a [Manager].
type Option interface{ apply(*options) }

type options struct {
	logger  *zap.Logger
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	elected bool
	lock    resourcelock.Interface
	elect   []leader.Option
	stuck   time.Duration
	address string
	klog    bool
	routes  []route

	decoding    []client.ResourceOption
	informing   []func(name string) []informer.Option
	reconciling []reconcile.Option
}

// route is a further handler of the server.
type route struct {
	pattern string
	handler http.Handler
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{logger: defaultLogger(), scheme: scheme.Scheme, stuck: defaultStuckAfter}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithLogger sets the logger of the manager, and of the informers, reconcilers and the election
// that it makes. A nil pointer leaves the default, which writes lines at Warn and above to standard
// error. [zap.NewNop] and [slog.DiscardHandler] make loggers that write nothing.
func WithLogger[L *zap.Logger | *slog.Logger](logger L) Option {
	return optionFunc(func(o *options) {
		switch logger := any(logger).(type) {
		case *zap.Logger:
			if logger != nil {
				o.logger = logger
			}
		case *slog.Logger:
			if logger != nil {
				o.logger = klogging.Logger(logger)
			}
		}
	})
}

// defaultLogger logs warnings and errors, because an operator without logger must not fail in
// silence.
func defaultLogger() *zap.Logger {
	lines := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(lines, zapcore.Lock(os.Stderr), zap.WarnLevel))
}

// WithInformerOptions adds options to each informer that [Informer] makes, such as the options that
// measure or trace it. The function gets the informer's name. It must not call Informer, which
// waits for it. A nil function adds none.
func WithInformerOptions(opts func(name string) []informer.Option) Option {
	return optionFunc(func(o *options) {
		if opts != nil {
			o.informing = append(o.informing, opts)
		}
	})
}

// WithClientOptions adds options to each client that [For] and [ByReference] make, and through which their
// informers list and watch, such as [client.WithoutManagedFields].
func WithClientOptions(opts ...client.ResourceOption) Option {
	return optionFunc(func(o *options) { o.decoding = append(o.decoding, opts...) })
}

// WithReconcilerOptions adds options to each reconciler that [Reconcile] makes. The options of a
// call of Reconcile follow them.
func WithReconcilerOptions(opts ...reconcile.Option) Option {
	return optionFunc(func(o *options) { o.reconciling = append(o.reconciling, opts...) })
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
// [resourcelock.LeaseLock]: see package leader. Without it every process leads. With a nil lock, Run returns a
// controller.ErrIncomplete.
func WithElection(lock resourcelock.Interface, opts ...leader.Option) Option {
	return optionFunc(func(o *options) { o.elected, o.lock, o.elect = true, lock, opts })
}

// WithStuckAfter sets how long a call of a function given to [Reconcile] may take before /healthz
// fails. It should be far longer than any healthy call. The default is 15 minutes. 0 or
// less means no limit.
func WithStuckAfter(d time.Duration) Option {
	return optionFunc(func(o *options) { o.stuck = d })
}

// WithServer makes Run serve /healthz and /readyz at a TCP address, such as ":8081". With port 0
// the system chooses a port: see [Manager.Address]. With an empty address, as without this option,
// Run serves nothing.
func WithServer(address string) Option {
	return optionFunc(func(o *options) { o.address = address })
}

// WithHandler adds a handler to the server of [WithServer], such as metrics. The pattern is a
// pattern of [http.ServeMux]. Run panics, as ServeMux does, if the pattern is invalid or already
// used. A nil handler adds none.
func WithHandler(pattern string, handler http.Handler) Option {
	return optionFunc(func(o *options) {
		if handler != nil {
			o.routes = append(o.routes, route{pattern, handler})
		}
	})
}
