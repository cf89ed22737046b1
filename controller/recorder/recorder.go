package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
)

const (
	// DefaultDrainTimeout is how long Run goes on with what was told when ctx ends.
	DefaultDrainTimeout = 5 * time.Second

	// earlyLimit is how many Events wait for Run. client-go has as many wait for the server.
	earlyLimit = 1000

	// Nothing must have happened at so many looks in a row, with so long between two, until
	// everything counts as written: client-go has a goroutine for each Event, of which
	// nothing is seen until it begins to write. One look after all of the time would not
	// do: a process that has not run for as long, on a machine that is busy or because its
	// CPU time is limited, may come to that before it comes to the goroutine.
	looks = 10
	pause = 10 * time.Millisecond
)

var (
	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("recorder is running already")

	// ErrUnwritten means that there was no time to write all Events.
	ErrUnwritten = errors.New("not all Events were written in the time that there was")
)

// Recorder writes Events. Create one with [New], and make it work with [Recorder.Run].
type Recorder struct {
	sink    events.EventSink
	name    string
	scheme  *runtime.Scheme
	logger  *zap.Logger
	timeout time.Duration

	// mu protects the fields below it.
	mu    sync.Mutex
	run   *run // nil unless Run runs
	early []telling
}

// telling is what somebody told.
type telling struct {
	regarding                     *corev1.ObjectReference
	related                       runtime.Object
	kind, reason, action, message string
}

var (
	_ events.EventRecorder = (*Recorder)(nil)
	_ informer.Member      = (*Recorder)(nil)
)

// Option configures a [Recorder].
type Option interface{ apply(*Recorder) }

type optionFunc func(*Recorder)

func (f optionFunc) apply(r *Recorder) { f(r) }

// WithScheme sets the scheme that says which kind an object is that does not say it
// itself. The default is that of client-go.
func WithScheme(scheme *runtime.Scheme) Option {
	return optionFunc(func(r *Recorder) { r.scheme = scheme })
}

// WithLogger sets the logger, which gets a warning for what is not written. The default
// logs nothing. What client-go itself says about it goes to klog.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(r *Recorder) {
		if logger != nil {
			r.logger = logger
		}
	})
}

// WithDrainTimeout sets how long Run goes on with what was told when ctx ends. The default
// is [DefaultDrainTimeout].
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(r *Recorder) { r.timeout = d })
}

// New returns a recorder that writes in the name of a controller. Nothing happens until Run
// is called.
func New(client eventsv1client.EventsV1Interface, controller string, opts ...Option) *Recorder {
	r := &Recorder{
		sink: &events.EventSinkImpl{Interface: client}, name: controller,
		scheme: scheme.Scheme, logger: zap.NewNop(), timeout: DefaultDrainTimeout,
	}
	for _, opt := range opts {
		opt.apply(r)
	}
	return r
}

// Reference returns what Events name an object by that is a struct of your own, and so no
// [runtime.Object].
func Reference(object metav1.Object, kind schema.GroupVersionKind) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// Name returns a name for errors and checks.
func (r *Recorder) Name() string { return "events of " + r.name }

// Eventf tells of something that was done. It implements client-go's
// [events.EventRecorder], which says what the arguments are; args are any because they
// are those of [fmt.Sprintf]. It returns at once.
func (r *Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	of, err := reference.GetReference(r.scheme, regarding)
	if err == nil && !util.ValidateEventType(kind) {
		err = fmt.Errorf("there is no type %q of Events", kind)
	}
	if err != nil {
		r.logger.Warn("event not written", zap.String("reason", reason), zap.Error(err))
		return
	}
	of = of.DeepCopy()
	of.ResourceVersion = "" // with it, each state of the object would have an Event of its own
	if related != nil {     // so would each state of the other one
		if other, err := reference.GetReference(r.scheme, related); err == nil {
			other = other.DeepCopy()
			other.ResourceVersion = ""
			related = other
		}
	}
	t := telling{regarding: of, related: related, kind: kind, reason: reason, action: action, message: fmt.Sprintf(note, args...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.run != nil:
		r.run.tell(t)
	case len(r.early) < earlyLimit:
		r.early = append(r.early, t)
	default:
		r.logger.Warn("event not written", zap.String("reason", reason), zap.String("because", "nobody runs the recorder"))
	}
}

// WaitForSync implements [informer.Member]: there is nothing to wait for.
func (r *Recorder) WaitForSync(context.Context) error { return nil }

// Ready implements [informer.Member]: it always is, because nobody waits for Events.
func (r *Recorder) Ready() error { return nil }

// Run writes what is told until ctx ends, and then what is left. It returns nil,
// [ErrUnwritten], or [ErrRunning] if it runs already. It may be called again.
func (r *Recorder) Run(ctx context.Context) error {
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r.mu.Lock()
	if r.run != nil {
		r.mu.Unlock()
		return ErrRunning
	}
	run, err := newRun(writing, r)
	if err != nil {
		r.mu.Unlock()
		return err
	}
	r.run = run
	for _, t := range r.early {
		run.tell(t)
	}
	r.early = nil
	r.mu.Unlock()

	<-ctx.Done()
	r.mu.Lock()
	r.run = nil
	r.mu.Unlock()
	err = run.drain(r.timeout)
	end()
	run.close()
	return err
}
