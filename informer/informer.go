package informer

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/guard"
	"go.uber.org/zap"
)

// Informer keeps a cache of one resource, and tells any number of subscribers what
// happens in it. See the package documentation for what it guarantees.
//
// Create one with [New], and make it work with [Informer.Run].
type Informer[T any] struct {
	options
	cache   *store.Cache[T]
	into    store.Store[T] // what is filled: the cache, or the backing
	backing Backing[T]     // nil if there is none
	broken  error          // what is wrong with the options
	feed    feed
	guard   *guard.Guard[T] // nil for none

	// mu protects the fields below it. It is never held while code of a user
	// runs.
	mu            sync.Mutex
	subscriptions []*Subscription[T] // in the order in which they came
	named         int                // how many subscriptions there have been
	run           *run[T]            // nil unless Run runs
	failure       *failure           // never nil
	stopped       chan struct{}      // closed while nobody fills the cache; never nil
}

// New returns an informer of the objects of a client. Nothing happens until Run is
// called; a nil client is reported by Run as well.
func New[T reflector.Object, L any](client reflector.Client[T, L], opts ...Option) *Informer[T] {
	i := newInformer(store.ObjectKey[T], opts)
	i.feed = newSource(reflector.New(client, i.into, i.reflectorOptions()...))
	return i
}

// NewTransformed returns an informer of what fn makes of the objects of a client, such
// as a copy with fewer fields, or a type of your own: S is all that is cached, and all
// that subscribers hear of. key is the KeyFunc of S, and must give it the key that the
// object had, such as store.ObjectKey if S is a Kubernetes object, too.
//
// An object for which fn returns an error, panics or returns nil is one that cannot be
// stored: it is reported, what was held under its key stays, and it is fetched again
// after a back-off. What else there is to know of fn, [decorate.Transform] says.
func NewTransformed[T reflector.Object, L, S any](client reflector.Client[T, L], fn func(T) (S, error), key store.KeyFunc[S], opts ...Option) *Informer[S] {
	i := newInformer(key, opts)
	i.feed = newSource(reflector.New(client, decorate.Transform(i.into, store.ObjectKey[T], fn), i.reflectorOptions()...))
	return i
}

// newInformer returns an informer without a feed.
func newInformer[T any](key store.KeyFunc[T], opts []Option) *Informer[T] {
	i := &Informer[T]{
		options: newOptions(reflect.TypeFor[T]().String(), opts),
		failure: newFailure(),
		stopped: make(chan struct{}),
	}
	close(i.stopped)
	i.back(key)
	i.watchMutations()
	return i
}

// Name returns the informer's name: see [WithName].
func (i *Informer[T]) Name() string { return i.name }

// Logger returns the logger of [WithLogger], whose lines name the informer.
func (i *Informer[T]) Logger() *zap.Logger { return i.logger }

// Cache returns the cache, for reading. Add indexes to it with [store.AddIndex].
func (i *Informer[T]) Cache() *store.View[T] { return &i.cache.View }

// Handle subscribes a handler. It is called while Run runs, from a goroutine of its
// own, first with an initial addition for each object that the cache holds; the first
// call may come before Handle returns. A nil handler fails on every event.
func (i *Informer[T]) Handle(handler Handler[T], opts ...SubscriptionOption) *Subscription[T] {
	return i.HandleFiltered(nil, handler, opts...)
}

// HandleFiltered is Handle for a handler that is to hear of some objects only: those
// for which keep returns true. An object that begins to be one of them is an addition,
// one that ceases to be is a deletion, with the last state in which it was. A nil keep
// keeps everything.
//
// keep must be pure, quick, and depend on nothing but the object, because it runs while
// the cache is written and is asked again of prior states. An object on which it panics
// counts as refused; [Subscription.Stats] counts and shows such panics. See
// [eventqueue.FollowFiltered].
func (i *Informer[T]) HandleFiltered(keep func(T) bool, handler Handler[T], opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{handler: handler, called: true}, keep, opts)
}

// Subscribe subscribes somebody who pulls events with [Subscription.Events], at
// their own pace and on their own goroutine. They get an initial addition for each
// object that the cache holds first. Close the subscription when it is not needed
// any more.
func (i *Informer[T]) Subscribe(opts ...SubscriptionOption) *Subscription[T] {
	return i.SubscribeFiltered(nil, opts...)
}

// SubscribeFiltered is Subscribe for somebody who is to hear of some objects only: see
// [Informer.HandleFiltered].
func (i *Informer[T]) SubscribeFiltered(keep func(T) bool, opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{}, keep, opts)
}

func (i *Informer[T]) subscribe(s *Subscription[T], keep func(T) bool, opts []SubscriptionOption) *Subscription[T] {
	s.subscriptionOptions = newSubscriptionOptions(i.common, opts)
	s.of, s.closing, s.done = i, make(chan struct{}), make(chan struct{})
	if number := i.number(); s.name == "" {
		s.name = fmt.Sprintf("#%d", number)
	}
	s.observeQueues()
	s.queues = eventqueue.FollowFiltered(i.cache, keep, s.queueing...)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscriptions = append(i.subscriptions, s)
	if i.run != nil {
		i.run.serve(s)
	}
	return s
}

// number returns the number of a new subscription.
func (i *Informer[T]) number() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.named++
	return i.named
}

func (i *Informer[T]) forget(s *Subscription[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscriptions = slices.DeleteFunc(i.subscriptions, func(other *Subscription[T]) bool { return other == s })
}

// handlers returns the subscriptions that are called.
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
