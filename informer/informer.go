package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// Informer keeps a cache of one resource, and tells any number of subscribers what
// happens in it. See the package documentation for what it guarantees.
//
// Create one with [New], and make it work with [Informer.Run].
type Informer[T any] struct {
	options
	cache *store.Cache[T]
	feed  feed

	// mu protects the fields below it. It is never held while code of a user
	// runs.
	mu            sync.Mutex
	subscriptions []*Subscription[T] // in the order in which they came
	named         int                // how many subscriptions there have been
	run           *run[T]            // nil unless Run runs
}

// feed is the reflector as an informer sees it.
type feed interface {
	Run(ctx context.Context) error
	State() reflector.State
	Changed(seen reflector.State) <-chan struct{}
	Synced() <-chan struct{}
}

var (
	// ErrRunning means that Run was called while it runs already.
	ErrRunning = errors.New("informer is running already")

	// ErrDrainTimeout is the cause of an [*eventqueue.DrainError] when the time
	// for finishing was over.
	ErrDrainTimeout = errors.New("time to finish is over")
)

// SubscriptionError says that a subscriber had events left when Run returned. It
// gets them when Run is called again.
type SubscriptionError struct {
	// Subscription is the subscriber's name: see [WithName].
	Subscription string
	// Err is an [*eventqueue.DrainError].
	Err error
}

// Error names the subscriber and says what is left.
func (e *SubscriptionError) Error() string {
	return fmt.Sprintf("subscriber %s: %v", e.Subscription, e.Err)
}

// Unwrap returns Err.
func (e *SubscriptionError) Unwrap() error { return e.Err }

// New returns an informer of the objects of a client. Nothing happens until Run is
// called; a nil client is reported by Run as well.
func New[T reflector.Object, L any](client reflector.Client[T, L], opts ...Option) *Informer[T] {
	o := newOptions(opts)
	cache := store.New(store.ObjectKey[T])
	return &Informer[T]{
		options: o,
		cache:   cache,
		feed:    reflector.New(client, cache, o.reflectorOptions()...),
	}
}

// Cache returns the cache, for reading. Add indexes to it with [store.AddIndex].
func (i *Informer[T]) Cache() *store.View[T] { return i.cache.View() }

// State says what the reflector is doing, and why the cache is not filled if it is
// not.
func (i *Informer[T]) State() reflector.State { return i.feed.State() }

// Changed returns a channel that is closed when the state is another than the
// given one: see [reflector.KubernetesResourceReflector.Changed].
func (i *Informer[T]) Changed(seen reflector.State) <-chan struct{} { return i.feed.Changed(seen) }

// Synced returns a channel that is closed once the cache has been filled. Whether
// a subscriber has heard of what is in it, [Subscription.Synced] says.
func (i *Informer[T]) Synced() <-chan struct{} { return i.feed.Synced() }

// Run fills the cache, keeps it up to date and calls handlers, until ctx ends. It
// then lets handlers finish what is queued for them, for as long as
// [WithDrainTimeout] says, and returns when the last call has returned.
//
// It returns nil if the reflector ended without an error and no handler had
// anything left to do.
func (i *Informer[T]) Run(ctx context.Context) error {
	r, err := i.start(ctx)
	if err != nil {
		return err
	}
	defer i.stop(r)
	err = i.feed.Run(ctx)
	return errors.Join(err, i.drain(r))
}

// run is what belongs to one call of Run.
type run[T any] struct {
	// working is the context of handlers. It outlives that of Run, so that they
	// can finish.
	working context.Context
	end     context.CancelFunc
	workers sync.WaitGroup
	ending  bool // no worker is started any more; guarded by Informer.mu
}

func (i *Informer[T]) start(ctx context.Context) (*run[T], error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run != nil {
		return nil, ErrRunning
	}
	r := &run[T]{}
	r.working, r.end = context.WithCancel(context.WithoutCancel(ctx))
	i.run = r
	for _, s := range i.subscriptions {
		r.work(s)
	}
	return r, nil
}

// work starts the worker of a subscriber that is called. The caller holds the
// informer's mu.
func (r *run[T]) work(s *Subscription[T]) {
	if s.called && !r.ending {
		r.workers.Go(func() { s.work(r.working) })
	}
}

func (i *Informer[T]) stop(r *run[T]) {
	r.end()
	i.mu.Lock()
	r.ending = true
	i.mu.Unlock()
	r.workers.Wait()
	i.mu.Lock()
	i.run = nil // not before: a handler must not get a second worker
	i.mu.Unlock()
}

// drain waits until the handlers are through with what is queued.
func (i *Informer[T]) drain(r *run[T]) error {
	ctx, cancel := context.WithTimeoutCause(r.working, i.drainTimeout, ErrDrainTimeout)
	defer cancel()
	var errs []error
	for _, s := range i.handlers() {
		// One after the other: they all work meanwhile, and have one deadline.
		if err := s.queues.Drain(ctx); err != nil {
			errs = append(errs, &SubscriptionError{Subscription: s.name, Err: err})
		}
	}
	return errors.Join(errs...)
}

func (i *Informer[T]) handlers() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []*Subscription[T]
	for _, s := range i.subscriptions {
		if s.called {
			all = append(all, s)
		}
	}
	return all
}

// Handle subscribes a handler. It is called while Run runs, from a goroutine of its
// own, first with an initial addition for each object that the cache holds. A nil
// handler fails on every event.
func (i *Informer[T]) Handle(handler Handler[T], opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{handler: handler, called: true}, opts)
}

// Subscribe subscribes somebody who pulls events with [Subscription.Events], at
// their own pace and on their own goroutine. They get an initial addition for each
// object that the cache holds first. Close the subscription when it is not needed
// any more.
func (i *Informer[T]) Subscribe(opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{}, opts)
}

func (i *Informer[T]) subscribe(s *Subscription[T], opts []SubscriptionOption) *Subscription[T] {
	o := newSubscriptionOptions(opts)
	s.of, s.name, s.done = i, o.name, make(chan struct{})
	s.queues = eventqueue.Follow(i.cache, eventqueue.WithCompaction(o.compaction))
	i.mu.Lock()
	defer i.mu.Unlock()
	i.named++
	if s.name == "" {
		s.name = fmt.Sprintf("#%d", i.named)
	}
	i.subscriptions = append(i.subscriptions, s)
	if i.run != nil {
		i.run.work(s)
	}
	return s
}

func (i *Informer[T]) forget(s *Subscription[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscriptions = slices.DeleteFunc(i.subscriptions, func(other *Subscription[T]) bool { return other == s })
}

// report tells of a failure of a handler.
func (i *Informer[T]) report(ctx context.Context, s *Subscription[T], err *eventqueue.HandlerError) {
	i.logger.Error("handler failed", zap.String("subscriber", s.name), zap.Stringer("key", err.Key),
		zap.Int("attempt", err.Attempt), zap.Error(err.Err))
	i.errorHook(ctx, err)
}
