package recorder

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
)

const (
	// defaultDrainTimeout is the default of [WithDrainTimeout].
	defaultDrainTimeout = 5 * time.Second

	// earlyLimit is the largest number of Events that wait for Run. client-go queues the same
	// number for the server.
	earlyLimit = 1000

	// drain counts all Events as written after so many idle checks in a row, with this pause
	// between two. client-go starts a goroutine for each Event, which is invisible until it begins
	// to write. A single check after the whole time would not do: on a busy machine, or with
	// limited CPU time, a paused process may run that check before it runs the goroutine.
	looks = 10
	pause = 10 * time.Millisecond

	// maxText and maxNote are the server's limits in bytes. It refuses a longer reason, action or
	// reporting instance, and a longer note.
	maxText = 128
	maxNote = 1024
)

// ErrUnwritten means that the drain timeout ended before all Events were written.
var ErrUnwritten = fmt.Errorf("not all Events were written before the %w", lifecycle.ErrDrainTimeout)

// Recorder writes Events. Create one with [New], and start it with [Recorder.Run].
type Recorder struct {
	client  eventsv1client.EventsV1Interface
	name    string
	logger  *zap.Logger
	timeout time.Duration
	running lifecycle.Running

	// mu protects the fields below it.
	mu    sync.Mutex
	run   *run // of a Run whose ctx has not ended; nil otherwise
	early []call
}

// call has the arguments of one call of Eventf.
type call struct {
	regarding                     *corev1.ObjectReference
	related                       runtime.Object
	kind, reason, action, message string
}

var (
	_ events.EventRecorder = (*Recorder)(nil)
	_ informer.Runnable    = (*Recorder)(nil)
)

// Option configures a [Recorder].
type Option interface{ apply(*Recorder) }

type optionFunc func(*Recorder)

func (f optionFunc) apply(r *Recorder) { f(r) }

// WithLogger sets the logger, which gets a warning for each Event that is not written. The default
// logs nothing. Messages of client-go itself go to klog.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(r *Recorder) {
		if logger != nil {
			r.logger = logger
		}
	})
}

// WithDrainTimeout sets how long Run continues with pending Events after ctx has ended. The default
// is 5 seconds.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(r *Recorder) { r.timeout = d })
}

// New returns a recorder that writes Events in the name of a controller: a qualified name, such as foos or
// example.com/foos. Nothing starts before Run.
func New(client eventsv1client.EventsV1Interface, controller string, opts ...Option) *Recorder {
	r := &Recorder{
		client: client, name: controller,
		logger: zap.NewNop(), timeout: defaultDrainTimeout,
	}
	for _, opt := range opts {
		opt.apply(r)
	}
	return r
}

// Reference returns a reference to an object for Eventf. Use it for a struct of your own that is
// not a [runtime.Object].
func Reference(object metav1.Object, kind schema.GroupVersionKind) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// Name returns a name for errors and checks.
func (r *Recorder) Name() string { return "events of " + r.name }

// Eventf records an action. It implements client-go's [events.EventRecorder], which documents the
// arguments. args are the arguments of [fmt.Sprintf] for note. An object that does not contain its
// kind is one of Kubernetes' own, or is passed as a [Reference]. Eventf returns at once.
func (r *Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if stream.IsNil(regarding) { // client-go panics with a nil pointer
		regarding = nil
	}
	if stream.IsNil(related) {
		related = nil
	}
	of, err := reference.GetReference(scheme.Scheme, regarding)
	if err == nil && !util.ValidateEventType(kind) {
		err = fmt.Errorf("there is no type %q of Events", kind)
	}
	if err != nil {
		r.logger.Warn("event not written", zap.String("reason", reason), zap.Error(err))
		return
	}
	of = of.DeepCopy()
	of.ResourceVersion = "" // with it, each version of the object would have its own Event
	if related != nil {     // so would each version of the related object
		if other, err := reference.GetReference(scheme.Scheme, related); err == nil {
			other = other.DeepCopy()
			other.ResourceVersion = ""
			related = other
		}
	}
	c := call{
		regarding: of, related: related, kind: kind, reason: cut(reason, maxText, ""),
		action: cut(cmp.Or(action, reason), maxText, ""), message: cut(fmt.Sprintf(note, args...), maxNote, "…"),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.run != nil:
		r.run.pass(c)
	case len(r.early) < earlyLimit:
		r.early = append(r.early, c)
	default:
		r.logger.Warn("event not written", zap.String("reason", reason), zap.String("because", "the recorder does not run"))
	}
}

// cut returns the beginning of a text, with a mark at its end, if the text has more bytes than limit.
// The text is made valid UTF-8 first, because a client could not send it otherwise.
func cut(text string, limit int, mark string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// WaitForSync implements [informer.Runnable]: there is nothing to wait for.
func (r *Recorder) WaitForSync(context.Context) error { return nil }

// Ready implements [informer.Runnable]: it always returns nil, because no member waits for Events.
func (r *Recorder) Ready() error { return nil }

// Run writes Events until ctx ends, and then the remaining ones. It returns nil, an [ErrUnwritten], a
// controller.ErrRunning while another Run has not returned, a controller.ErrIncomplete if there is
// no client, or an error if the server refuses the name of the controller. It may be called again.
func (r *Recorder) Run(ctx context.Context) error {
	if r.client == nil {
		return fmt.Errorf("client of recorder %s: %w", r.name, lifecycle.ErrIncomplete)
	}
	if wrong := validation.IsQualifiedName(r.name); len(wrong) > 0 {
		return fmt.Errorf("name of the controller of a recorder, %q, which the server would refuse in each Event: %s", cut(r.name, maxText, "…"), strings.Join(wrong, "; "))
	}
	end, err := r.running.Begin("recorder of " + r.name)
	if err != nil {
		return err
	}
	defer end()
	writing, stop := lifecycle.WorkContext(ctx)
	defer stop()
	run, err := newRun(writing, r)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.run = run
	for _, c := range r.early {
		run.pass(c)
	}
	r.early = nil
	r.mu.Unlock()

	<-ctx.Done()
	r.mu.Lock()
	r.run = nil
	r.mu.Unlock()
	err = run.drain(writing, r.timeout)
	stop()
	run.close()
	return err
}
