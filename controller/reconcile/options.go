package reconcile

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Option configures a [Reconciler].
type Option interface{ apply(*options) }

type options struct {
	controller   []controller.Option // workers and drain
	queue        []eventqueue.Option
	logger       *zap.Logger
	errorHandler func(context.Context, error) // nil for none

	where      []func(primary source) error // adds predicates
	sources    []source                     // the secondary ones
	timeout    time.Duration
	visibility time.Duration // 0 or less means no wait
	catchUp    time.Duration // 0 or less means no wait
	ignoreOwn  bool
	observers  []Observer
	uncalled   func(store.Key) // nil for none
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{
		queue:      []eventqueue.Option{eventqueue.WithBackoff(5*time.Millisecond, 5*time.Minute)},
		logger:     zap.NewNop(),
		visibility: 30 * time.Second,
		catchUp:    time.Minute,
	}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithWorkers sets how many keys are reconciled at the same time. The default is 1; less counts as
// 1.
func WithWorkers(n int) Option {
	return optionFunc(func(o *options) { o.controller = append(o.controller, controller.WithWorkers(n)) })
}

// WithDrainTimeout sets how long Run continues with the queued keys after ctx has ended. The
// default is 10 seconds, well below the 30 seconds that Kubernetes gives a pod to end. 0 or less
// ends the contexts of running calls at once.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.controller = append(o.controller, controller.WithDrainTimeout(d)) })
}

// WithLogger sets the logger, which gets failures of the reconcile function at Error, and at Warn why
// a key or the first call waits for a cache. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithErrorHandler sets a function that is called with every failure of the reconcile function, as
// a [*eventqueue.HandlerError], on the worker's goroutine. The default does nothing.
func WithErrorHandler(handler func(context.Context, error)) Option {
	return optionFunc(func(o *options) {
		if handler != nil {
			o.errorHandler = handler
		}
	})
}

// WithQueue passes options to the queue of keys: [eventqueue.WithBackoff] for failed keys, whose
// defaults here are 5 milliseconds and 5 minutes, and [eventqueue.WithPriority], which lets keys
// with live events go first by default. [eventqueue.WithCompaction] has no effect, because the queue
// holds a key once.
func WithQueue(opts ...eventqueue.Option) Option {
	return optionFunc(func(o *options) { o.queue = append(o.queue, opts...) })
}

// WithTimeout sets how long one call of the reconcile function may take. Its context then ends with
// the cause [context.DeadlineExceeded]. The default is no limit; 0 or less means the same.
func WithTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.timeout = d })
}

// WithReadYourWritesTimeout sets how long a key waits, after a call with a write, until the caches
// show the write: see [RecordWrite]. The key is then reconciled again, since the write may have been
// lost, unless the call returned an error of [eventqueue.Permanent]. The default is 30 seconds.
//
// The key waits longer, up to an hour, while a cache is behind: its version is below that of the
// write; it has had no list yet; or it still shows a deleted object, and the reconciler, which then
// asks the server, finds that the cache has not caught up, or gets no answer. (It cannot ask for a cache that
// no reflector of this library fills, and takes that one for current.) A call on a cache that is behind
// might repeat the write: with generateName, that makes a second object, and a function that deletes
// what is too much deletes one more. The logger says why the key waits, after the timeout and then
// after twice the time. If a list lowers the version of the cache below the one at the time of the write,
// as after a restore of etcd, the key does not wait any longer.
//
// With 0 or less the key does not wait. Use that if calls write to another cluster than the one that
// the informers watch, because versions of different clusters cannot be compared.
func WithReadYourWritesTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.visibility = d })
}

// IgnoreOwnWrites ignores the events that show only a write of a call for the same key: they trigger
// no reconcile. Each call must then leave the object in its final state, because the key is not
// reconciled again until another writer changes something. By default a reconcile follows each own
// write, and ends when it finds no work.
//
// An event is ignored only if it is certain that it hides no other writer's change. So the write must
// be a creation, or must carry the resource version that it replaces, which the server then checks.
// [write.Patch], Status, Finalize and CreateOrUpdate do that by themselves; the methods of a
// client.Resource do it for an object, or a patch in JSON, with a resource version. A write without
// one may replace any state, and if it changes nothing, the server even answers with the other
// writer's state. So its event triggers a reconcile. The event of a write that only [RecordWrite]
// reports does so as well, because RecordWrite does not know what the write replaced.
//
// The watch must also have shown the state that the write replaced, and a mapping must have led from
// that state to the same key. Events of lists, deletions, further events of the same version and
// events after a gap trigger a reconcile, and so do all events of a type that shows no resource version.
//
// [write.Patch]: https://pkg.go.dev/github.com/kubereflector/kubereflector/controller/write#Patch
func IgnoreOwnWrites() Option {
	return optionFunc(func(o *options) { o.ignoreOwn = true })
}

// OnUncalled sets a function that gets each key of the queue that is not reconciled although the worker had
// time for it: its object exists, but not in the primary cache (reconcile-R11), or it is the key of a primary
// object without its namespace. So no call follows the last one of the key, even if that failed, until the key
// is queued again. A worker calls the function while no call for the key runs. It is for package refer, which
// keeps something for each key. Others cannot name its first argument.
func OnUncalled(_ ours.Only, fn func(store.Key)) Option {
	return optionFunc(func(o *options) { o.uncalled = fn })
}

// Observer sees why keys are reconciled, and every call of the reconcile function, for metrics and
// traces. Several goroutines call its methods at the same time: one for each informer whose events
// are mapped, and one for each worker. Its methods must be quick, and must not panic.
type Observer interface {
	// Triggered is called when an event triggers a reconcile, before that reconcile. ctx has the
	// values of the context in which the event was handled, such as those of an
	// [informer.Observer]. One call may have many triggers. A retry after a failure has none.
	Triggered(ctx context.Context, trigger Trigger)
	// Reconciling is called before the reconcile function, on the same goroutine, and returns the
	// context for it, which must derive from ctx. done may be nil. It is called with the result of
	// the function. After a panic or runtime.Goexit the error is [eventqueue.ErrAbandoned].
	Reconciling(ctx context.Context, call Call) (reconciles context.Context, done func(Result, error))
}

// Trigger is an event that triggers a reconcile.
type Trigger struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	// Key is the key to reconcile, and Object the object of the event. They are the same unless
	// [Watch] maps one to the other.
	Key, Object store.Key
	// Type and Origin belong to the event.
	Type   eventqueue.Type
	Origin eventqueue.Origin
}

// Call is a call of a reconcile function.
type Call struct {
	// Reconciler is the reconciler's name.
	Reconciler string
	Key        store.Key
	// Attempt is one more than the number of failures of the key since its last success.
	Attempt int
	// Waited is the time since the oldest event that triggered the call, or since the end of the
	// delay that did.
	Waited time.Duration
}

// WithObserver adds an observer of triggers and calls. If the option is given more than once, as
// for metrics and traces, all observers are called. The default is none and costs nothing. nil adds
// none, but a nil pointer in the interface does not count as nil. For the handlers through which a
// reconciler gets events see [informer.WithObserver].
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) {
		if observer != nil {
			o.observers = append(o.observers, observer)
		}
	})
}

// cause is the observer's data of a trigger.
type cause struct {
	ctx   context.Context // of the handler, for its values
	event Trigger
}

// tellTriggered calls the observers for a trigger.
func (r *run) tellTriggered(t trigger) {
	if t.cause == nil {
		return
	}
	event := t.cause.event
	event.Reconciler, event.Key = r.name, t.key
	for _, one := range r.observers {
		one.Triggered(t.cause.ctx, event)
	}
}

// observed calls the reconcile function between the calls of the observers. Each observer gets the
// context of the observer before it.
func (r *run) observed(ctx context.Context, queue *eventqueue.Queue[store.Key]) (result Result, err error) {
	key := queue.Key()
	call := Call{Reconciler: r.name, Key: key, Attempt: queue.Attempt(), Waited: queue.Waited()}
	err = eventqueue.ErrAbandoned
	for _, one := range r.observers {
		var done func(Result, error)
		if ctx, done = one.Reconciling(ctx, call); done != nil {
			defer func() { done(result, err) }()
		}
	}
	result, err = r.reconcile(ctx, key)
	return result, err
}
