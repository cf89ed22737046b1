package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Reconcile makes the world be as the object of a key says, or as nothing says if there
// is no such object any more: it reads both from caches, not from events. It is called
// for a key by one worker at a time, again and again, so that it must find out what is
// left to do; where nothing is, it writes nothing.
//
// An error has it called again after a back-off, unless it is [Permanent].
type Reconcile func(ctx context.Context, key store.Key) (Result, error)

// Result says when a key is to be reconciled again although nothing happens.
type Result struct {
	// RequeueAfter is how long to wait before. 0 or less is never. Of several such
	// times the first counts; it is not looked at where there is an error.
	RequeueAfter time.Duration
	// Priority is that of the call to come, be it because of RequeueAfter or of an
	// error; if the key waits for something else by then, the higher one counts. After
	// an error the zero value, which is [Normal], means the priority that this call had.
	Priority Priority
}

var (
	// ErrTimeout is the cause with which the context of a call ends when the time of
	// [WithTimeout] is over.
	ErrTimeout = errors.New("time to reconcile is over")

	// ErrReconcilerRuns means that a reconciler was changed while its Run runs.
	ErrReconcilerRuns = errors.New("reconciler runs already")

	// ErrIncompleteReconciler means that a reconciler was made without an informer or
	// a function.
	ErrIncompleteReconciler = errors.New("reconciler needs a primary informer, a reconcile function and, for each Watch, an informer and a mapping")
)

// Reconciler calls a function for the keys of objects that changed, or whose relatives
// did. See the package documentation for what it guarantees.
//
// Create one with [NewReconciler], and make it work with [Reconciler.Run].
type Reconciler[T any] struct {
	reconcilerOptions
	name      string
	primary   *watching[T]
	reconcile Reconcile
	synced    chan struct{}
	once      sync.Once // closes synced

	// mu protects running, and primary.only while running is false.
	mu      sync.Mutex
	running bool

	// unseen is what waits for the writes of earlier runs that the caches did not show
	// when those ended. Run alone uses it.
	unseen map[store.Key][]wait
}

var _ informer.Member = (*Reconciler[any])(nil)

// NewReconciler returns a reconciler of the objects of an informer, the primary one. Its
// name is for logs and metrics. Informers of other objects are added by [Watch].
//
// The reconciler runs no informer: run them beside it, as in an [informer.Group] that
// has all of them, and the reconciler, as members. Run logs a warning that names the informers
// that do not run 10 seconds after its start.
func NewReconciler[T any](name string, primary *informer.Informer[T], reconcile Reconcile, opts ...ReconcilerOption) *Reconciler[T] {
	o := newReconcilerOptions(opts)
	return &Reconciler[T]{
		reconcilerOptions: o,
		name:              name,
		primary:           &watching[T]{informer: primary, resync: o.resync},
		reconcile:         reconcile,
		synced:            make(chan struct{}),
	}
}

// Only adds a predicate: events of the primary informer for which it returns false do
// not have their object reconciled. See [SpecChanged]. It panics while Run runs. A manager
// that runs starts a reconciler as soon as it is added: call Only before, and add the
// reconciler by AddLed.
func (r *Reconciler[T]) Only(accepts func(eventqueue.Event[T]) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		panic(fmt.Errorf("Only of reconciler %q: %w", r.name, ErrReconcilerRuns))
	}
	r.primary.only = append(r.primary.only, accepts)
}

// Name returns the reconciler's name.
func (r *Reconciler[T]) Name() string { return r.name }

// all returns the sources, the primary one first.
func (r *Reconciler[T]) all() []source { return append([]source{r.primary}, r.sources...) }

// Informers returns the informers whose objects the reconciler watches, the primary one first.
func (r *Reconciler[T]) Informers() []informer.Member {
	var all []informer.Member
	for _, s := range r.all() {
		if s.complete() { // else Run fails
			all = append(all, s.of())
		}
	}
	return all
}

// startLimit is the time within which informers start. Programs start all parts at once, but
// some wait for a CustomResourceDefinition first.
const startLimit = 10 * time.Second

const notRunning = "reconciler watches informers that do not run: add them to the group that runs the reconciler, or call their Run"

// warn logs the informers that do not run. Without them the reconciler sees no change.
func (r *Reconciler[T]) warn(ctx context.Context) {
	var names []string
	for _, s := range r.all() {
		select {
		case <-s.of().Stopped():
			names = append(names, s.of().Name())
		default:
		}
	}
	if len(names) > 0 && ctx.Err() == nil {
		r.logger.Warn(notRunning, zap.String("reconciler", r.name), zap.Strings("informers", names))
	}
}

// Synced returns a channel that is closed when the first call may be made: all informers
// have filled their caches, and the key of every object that is in them waits.
func (r *Reconciler[T]) Synced() <-chan struct{} { return r.synced }

// WaitForSync waits for [Reconciler.Synced]. When ctx ends before, it returns why, as
// [Reconciler.Ready] does, and the cause of ctx.
func (r *Reconciler[T]) WaitForSync(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	default:
	}
	select {
	case <-r.synced:
		return nil
	case <-ctx.Done():
		return errors.Join(r.Ready(), context.Cause(ctx))
	}
}

// Ready returns nil if the reconciler is synced and all its informers are ready, and
// else what is missing: see [informer.Informer.Ready].
func (r *Reconciler[T]) Ready() error {
	var errs []error
	for _, s := range r.all() {
		if !s.complete() || r.reconcile == nil {
			return fmt.Errorf("reconciler %s: %w", r.name, ErrIncompleteReconciler)
		}
		errs = append(errs, s.of().Ready())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reconciler %s: %w", r.name, err)
	}
	select {
	case <-r.synced:
		return nil
	default:
		return fmt.Errorf("reconciler %s has not begun", r.name)
	}
}

// begin notes that Run runs, and reports whether it did not before.
func (r *Reconciler[T]) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ran := r.running
	r.running = true
	return !ran
}

func (r *Reconciler[T]) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
}

// Run waits until the informers are synced, and reconciles the key of every object that
// they hold, and then of those that change, until ctx ends. It then goes on with the
// keys that wait, for as long as [WithDrainTimeout] says, and returns when the last call
// has returned. Those that wait for a cache to show what was written are given up when
// its informer ends: let the informers end after the reconciler, as a group does. If the cause of ctx's end is [ErrHalt], it begins no other call, and the
// contexts of those that are being made end at once; see [WithHalt] as well.
//
// It returns nil if nothing was left to do; an [*eventqueue.DrainError] that names the
// keys that had failed, waited for the caches or were not reached; and [ErrRunning] if it
// runs already. It may be called again, and begins anew then, but for the keys that wait
// for the caches: those still do.
func (r *Reconciler[T]) Run(ctx context.Context) error {
	sources := r.all()
	for _, s := range sources {
		if !s.complete() || r.reconcile == nil {
			return ErrIncompleteReconciler
		}
	}
	if !r.begin() {
		return ErrRunning
	}
	defer r.end()
	defer time.AfterFunc(startLimit, func() { r.warn(ctx) }).Stop()

	shift := newShift(ctx, &r.reconcilerOptions, r.name, r.reconcile, sources)
	defer shift.close()
	defer onHalt(ctx, func() { shift.end(ErrHalt) })()
	subscriptions := make([]subscription, len(sources))
	for n, s := range sources {
		subscriptions[n] = s.subscribe(&r.reconcilerOptions, r.name, shift.trigger)
	}
	defer func() {
		for _, s := range subscriptions {
			s.Close()
		}
		for _, s := range subscriptions {
			<-s.Done()
		}
	}()
	for _, s := range subscriptions {
		select {
		case <-s.Synced():
		case <-ctx.Done():
			return nil // nobody was called
		}
	}
	shift.resume(r.unseen)
	defer func() { r.unseen = shift.leftUnseen() }()
	shift.start()
	r.once.Do(func() { close(r.synced) })
	<-ctx.Done()
	for _, s := range subscriptions {
		s.Close() // what happens from now on is for the next run
	}
	if errors.Is(context.Cause(ctx), ErrHalt) {
		shift.end(ErrHalt)
	}
	return shift.drain()
}
