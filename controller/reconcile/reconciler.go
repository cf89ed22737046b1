package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/term"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Func makes the cluster match the object of a key. If the object is gone, object is nil, or the
// zero value of T, and Func cleans up. Gone means gone from the API server, and not only from the
// cache: see reconcile-R11. The object comes from the cache of the primary informer: do not change it.
// One worker at a time calls Func for a key. Func is called again for the same state, so it must write
// nothing if no work is left.
//
// An object that stops matching the selector of the primary informer leaves this program without a
// call, and nothing is cleaned up, although its later deletion is not seen either. That holds even if
// it is being deleted: if its label goes before its finalizer, no call removes the finalizer. So a
// program that has finalizers, or must clean up, selects by a label that nobody changes, or watches
// all objects and decides in Func.
//
// After an error Func is called again with back-off, unless the error is one of
// [eventqueue.Permanent].
type Func[T any] func(ctx context.Context, key store.Key, object T) (Result, error)

// function is a [Func] that takes the object from the call of its context.
type function func(ctx context.Context, key store.Key) (Result, error)

// Result says when to reconcile a key again without an event. A function whose work also depends on
// something that no informer sees returns the period in which it looks at that.
type Result struct {
	// RequeueAfter is the delay until the key is reconciled again. 0 or less means never. It is
	// ignored if there is an error. If the key is reconciled earlier because of an event, the
	// result of that call replaces it.
	RequeueAfter time.Duration
}

// Reconciler calls a function for the keys of objects that changed, or whose related objects
// changed. See the package documentation for its guarantees.
//
// Create one with [New], and start it with [Reconciler.Run].
type Reconciler[T any] struct {
	options
	name      string
	primary   *watching[T]
	misuse    error // of options; Run returns it
	reconcile function
	synced    *lifecycle.Latch
	running   lifecycle.Running
	queue     atomic.Pointer[eventqueue.Collection[store.Key]] // of the last run
	current   atomic.Pointer[run]                              // nil unless Run runs

	// unseen holds the waits for writes of earlier runs that the caches did not show when those
	// runs ended. Only Run uses it.
	unseen map[store.Key][]wait
}

var _ informer.Runnable = (*Reconciler[any])(nil)

// New returns a reconciler for the objects of an informer, the primary one. The name is
// for logs and metrics. [Watch] adds informers of other objects.
//
// The reconciler does not run its informers: run them beside it, as package manager does.
// Ten seconds after its start, Run logs a warning with the names of the informers that do not run then.
func New[T any](name string, primary *informer.Informer[T], reconcile Func[T], opts ...Option) *Reconciler[T] {
	o := newOptions(opts)
	r := &Reconciler[T]{
		options: o,
		name:    name,
		primary: &watching[T]{informer: primary},
		synced:  lifecycle.NewLatch(),
	}
	if reconcile != nil {
		r.reconcile = func(ctx context.Context, key store.Key) (Result, error) {
			c := callOf(ctx)
			if c == nil {
				return Result{}, errOtherContext
			}
			object, _ := c.object.(T) // the cache may have changed since the run made sure
			return reconcile(ctx, key, object)
		}
	}
	for _, add := range o.where {
		r.misuse = errors.Join(r.misuse, add(r.primary))
	}
	return r
}

var errOtherContext = errors.New("observer returned a context that does not derive from the context of the call")

// check returns an error if the reconciler cannot run.
func (r *Reconciler[T]) check() error {
	err := r.misuse
	if r.reconcile == nil {
		err = errors.Join(err, fmt.Errorf("reconcile function: %w", controller.ErrIncomplete))
	}
	for _, s := range r.all() {
		err = errors.Join(err, s.check())
	}
	if err != nil {
		return fmt.Errorf("reconciler %s: %w", r.name, err)
	}
	return nil
}

// Enqueue queues a key for a reason that no informer sees, such as a timer or an event of another
// system. The key counts as live. A key without a name is logged and ignored. Enqueue does nothing
// while Run does not run, because Run begins with every key of the primary cache.
func (r *Reconciler[T]) Enqueue(key store.Key) {
	if queue := r.queue.Load(); queue != nil && r.accepts(r.name, key) {
		eventqueue.Add(queue, key)
	}
}

// accepts reports whether an object can have a key, and logs one that it cannot.
func (o *options) accepts(reconciler string, key store.Key) bool {
	if key.Name == "" {
		o.logger.Warn("key without a name is not queued", zap.String("reconciler", reconciler), zap.Stringer("key", key))
	}
	return key.Name != ""
}

// Name returns the reconciler's name.
func (r *Reconciler[T]) Name() string { return r.name }

// all returns the sources, the primary one first.
func (r *Reconciler[T]) all() []source { return append([]source{r.primary}, r.sources...) }

// Informers returns the informers whose objects the reconciler watches, the primary one first.
func (r *Reconciler[T]) Informers() []informer.Runnable {
	var all []informer.Runnable
	for _, s := range r.all() {
		if s.check() == nil { // else Run fails
			all = append(all, s.of())
		}
	}
	return all
}

// startLimit is the time within which informers start. Programs start all parts at once, but
// some wait for a CustomResourceDefinition first.
const startLimit = 10 * time.Second

const notRunning = "reconciler watches informers that do not run: add them to the manager that runs the reconciler, or call their Run"

// warn logs the informers that do not run. Without them the reconciler sees no change. An informer that
// fails later returns the reason from its own Run.
func (r *Reconciler[T]) warn(ctx context.Context) {
	var names []string
	for _, s := range r.all() {
		if lifecycle.IsClosed(s.of().Stopped()) {
			names = append(names, s.of().Name())
		}
	}
	if len(names) > 0 && ctx.Err() == nil {
		r.logger.Warn(notRunning, zap.String("reconciler", r.name), zap.Strings("informers", names))
	}
}

// Synced returns a channel that is closed when the first call may begin: all informers are synced
// and have caught up with the server, and the keys of their objects, or the keys that [Watch] maps them
// to, are queued.
func (r *Reconciler[T]) Synced() <-chan struct{} { return r.synced.Done() }

// WaitForSync waits for [Reconciler.Synced]. If ctx ends before, it returns the error of
// [Reconciler.Ready] and the cause of ctx. If an informer fails before it is synced, or the reconciler
// has an argument with which Run fails, it returns that error at once.
func (r *Reconciler[T]) WaitForSync(ctx context.Context) error {
	if err := r.check(); err != nil || r.synced.IsSet() {
		return err
	}
	waiting, fail := context.WithCancelCause(ctx)
	var informers sync.WaitGroup
	for _, s := range r.all() {
		informers.Go(func() {
			if err := s.of().WaitForSync(waiting); err != nil {
				fail(err)
			}
		})
	}
	defer informers.Wait()
	defer fail(nil)
	err := r.synced.Wait(waiting, r.Ready)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("reconciler %s: %w", r.name, context.Cause(waiting)) // Ready says less
	}
	return err
}

// Ready returns nil if the reconciler is synced and all its informers are ready. Otherwise the
// error names the reasons: see [informer.Informer.Ready].
func (r *Reconciler[T]) Ready() error {
	if err := r.check(); err != nil {
		return err
	}
	var errs []error
	for _, s := range r.all() {
		errs = append(errs, s.of().Ready())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reconciler %s: %w", r.name, err)
	}
	if !r.synced.IsSet() {
		return fmt.Errorf("reconciler %s has not begun", r.name)
	}
	return nil
}

// Stats returns the state of the queue of keys. Its counters begin at zero in each Run. Before the
// first Run they are zero.
func (r *Reconciler[T]) Stats() eventqueue.Stats {
	if queue := r.queue.Load(); queue != nil {
		return queue.Stats()
	}
	return eventqueue.Stats{}
}

// Run waits until the informers are synced, and until their caches are current: see
// [WithCatchUpTimeout]. It reconciles the key of every object that they hold, and then the keys of
// changed objects, until ctx ends. It then continues with the queued keys, for the time of
// [WithDrainTimeout], and returns when the last call has returned. If an informer ends, Run gives
// up the keys that wait for a cache: let the informers end after the reconciler, as package manager
// does. If the cause of ctx's end is [controller.ErrStopNow], Run begins no further call, and the
// contexts of running calls end at once: see also [controller.HardStopContext].
//
// It returns nil if no work is left. It returns an [*eventqueue.DrainError] that names the keys
// that had failed, waited for the caches or were not reached. It returns a [controller.ErrRunning]
// while another Run has not returned, [controller.ErrIncomplete] with the name of a nil argument, or the error
// of [Where] for a wrong type. If ctx ends before the informers are synced, it returns nil. If one of them
// fails before that, Run waits on, because the informer's Run may be called again: end ctx if it is not, as
// package manager does. Run may be called again and then begins anew. Keys that wait for the caches still
// wait then.
func (r *Reconciler[T]) Run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	began, sources := time.Now(), r.all()
	end, err := r.running.Begin("reconciler " + r.name)
	if err != nil {
		return err
	}
	defer end()
	defer time.AfterFunc(startLimit, func() { r.warn(ctx) }).Stop()

	run := newRun(ctx, &r.options, r.name, r.reconcile, sources)
	defer run.close()
	r.queue.Store(run.keys)
	r.current.Store(run)
	defer r.current.Store(nil)
	subscriptions := make([]subscription, len(sources))
	for n, s := range sources {
		subscriptions[n] = s.subscribe(&r.options, r.name, run.trigger)
	}
	stop := func() { // later events are for the next run
		for _, s := range subscriptions {
			s.Close()
		}
	}
	defer func() {
		stop()
		for _, s := range subscriptions {
			<-s.Done()
		}
	}()
	for n, s := range subscriptions {
		// A subscription to a restored cache is synced before its informer.
		for _, synced := range []<-chan struct{}{s.Synced(), sources[n].of().Synced()} {
			select {
			case <-synced:
			case <-ctx.Done():
				return nil // no call was made
			}
		}
	}
	if r.catchUp(ctx, sources, began); ctx.Err() != nil {
		return nil // no call was made
	}
	run.resume(r.unseen)
	defer func() { r.unseen = run.leftUnseen() }()
	r.synced.Set()
	return run.work(ctx, stop)
}

// startSpread is how much earlier than a reconciler its informers may have begun to list, if a
// program starts all of them together.
const startSpread = 5 * time.Second

const behind = "caches may be behind the server, but calls begin: a call may see objects as they were before this process took over; does the state of the informers show why?"

// WithCatchUpTimeout sets how long Run waits at most, before its first call, until the caches have
// what the server had at the beginning: see reconcile-R10. After that Run logs the reason, and makes
// its calls with the caches as they are. The default is a minute, because client-go detects a dead
// connection in 45 seconds, and a server sends a bookmark each minute. With 0 or less, Run does not
// wait.
func WithCatchUpTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.catchUp = d })
}

// catchUp waits until the caches are current. In the term of an election, they must show what the
// server had at the beginning of the term or later: the leader before may have written until then.
// Without an election it is enough that the program has just started with consistent lists.
func (r *Reconciler[T]) catchUp(ctx context.Context, sources []source, began time.Time) {
	since, elected := term.Begun(ctx)
	if !elected {
		since = began.Add(-startSpread)
	}
	if r.options.catchUp <= 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.options.catchUp)
	defer cancel()
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	for n, s := range sources {
		running.Go(func() { errs[n] = s.of().CatchUp(limited, since) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		r.logger.Warn(behind, zap.String("reconciler", r.name), zap.Duration("after", r.options.catchUp), zap.Error(err))
	}
}
