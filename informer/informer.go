package informer

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/guard"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// Informer keeps a cache of one resource, and sends its changes to any number of subscribers. See
// the package documentation for its guarantees.
//
// Create one with [New], and start it with [Informer.Run].
type Informer[T any] struct {
	options
	cache   *store.Cache[T]
	into    store.BatchStore[T] // the store to fill: the cache, or the backing
	backing Backing[T]          // nil if there is none
	feed    feed.Group
	guard   *guard.Guard[T] // nil for none
	running lifecycle.Running

	// mu protects the fields below it. It is never held while code of a user runs.
	mu            sync.Mutex
	subscriptions []*Subscription[T] // in the order in which they were made
	named         int                // the number of subscriptions made so far
	run           *run[T]            // nil unless Run runs
	stopped       chan struct{}      // closed while Run does not fill the cache; never nil
	// failed ends with the first failure of the feed or of the backing in a Run, which is its cause. Each of
	// them may call fail without mu: only a Run that starts sets it.
	failed context.Context
	fail   context.CancelCauseFunc
}

// New returns an informer for the objects of a client. Nothing starts before Run. A nil client is
// an error of Run.
func New[T reflector.Object, L any](client reflector.Client[T, L], opts ...Option) *Informer[T] {
	return newReflecting(newInformer(store.New(store.ObjectKey[T]), opts), client)
}

// newReflecting gives an informer a reflector.
func newReflecting[T reflector.Object, L any](i *Informer[T], client reflector.Client[T, L]) *Informer[T] {
	i.feed = feed.New(reflector.New(client, store.Store[T](i.into), i.reflectorOptions()...))
	return i
}

// NewTransformed returns an informer that caches the results of fn for the objects of a client,
// such as a copy with fewer fields, or a type of your own. The cache and the subscribers only see
// S. key is the KeyFunc of S, and must return the key of the original object. If S is a Kubernetes
// object too, store.ObjectKey does that.
//
// If fn returns an error, panics or returns nil, the object is rejected: the informer reports it,
// keeps the earlier object under its key, and fetches the object again after a back-off.
// [decorate.Transform] documents the other rules of fn.
//
// A change of the original is a Modification also where the results are equal, because its version differs. A
// subscriber that need not know compares them by store.EqualContent.
func NewTransformed[T reflector.Object, L, S any](client reflector.Client[T, L], fn func(T) (S, error), key store.KeyFunc[S], opts ...Option) *Informer[S] {
	i := newInformer(store.New(key), opts)
	i.feed = feed.New(reflector.New(client, decorate.Transform(i.into, store.ObjectKey[T], fn), i.reflectorOptions()...))
	return i
}

// newInformer returns an informer without a feed.
func newInformer[T any](cache *store.Cache[T], opts []Option) *Informer[T] {
	i := &Informer[T]{
		cache:   cache,
		into:    cache,
		options: newOptions(reflect.TypeFor[T]().String(), opts),
		stopped: make(chan struct{}),
	}
	close(i.stopped)
	i.failed, i.fail = context.WithCancelCause(context.Background())
	if i.guarding != nil {
		i.guard = guard.Watch(i.name, i.cache, i.guarding)
	}
	return i
}

// Name returns the informer's name: see [WithName].
func (i *Informer[T]) Name() string { return i.name }

// Logger returns the logger of [WithLogger], whose lines name the informer.
func (i *Informer[T]) Logger() *zap.Logger { return i.logger }

// Cache returns the cache, for reading. Add indexes to it with [store.AddIndex].
func (i *Informer[T]) Cache() *store.View[T] { return &i.cache.View }

// Handle subscribes a handler. While Run runs, the handler is called on its own goroutine, first
// with an initial addition for each object in the cache. The first call may come before Handle
// returns. A nil handler fails on every event.
func (i *Informer[T]) Handle(handler Handler[T], opts ...SubscriptionOption) *Subscription[T] {
	return i.HandleFiltered(nil, handler, opts...)
}

// HandleFiltered is Handle for a handler that needs only the objects for which keep returns true.
// An object that begins to satisfy keep is an addition. An object that ceases to satisfy it is a
// deletion, with its last accepted state. A nil keep accepts every object.
//
// keep must be pure, quick, and depend only on the object: see [eventqueue.FollowFiltered].
func (i *Informer[T]) HandleFiltered(keep func(T) bool, handler Handler[T], opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{handler: handler, hasHandler: true}, keep, opts)
}

// Subscribe returns a subscription whose owner pulls events with [Subscription.Consume], at its own
// pace and on its own goroutine. The first events are an initial addition for each object in the
// cache. Close the subscription when you no longer need it.
func (i *Informer[T]) Subscribe(opts ...SubscriptionOption) *Subscription[T] {
	return i.SubscribeFiltered(nil, opts...)
}

// SubscribeFiltered is Subscribe for a subscriber that needs only some objects: see
// [Informer.HandleFiltered].
func (i *Informer[T]) SubscribeFiltered(keep func(T) bool, opts ...SubscriptionOption) *Subscription[T] {
	return i.subscribe(&Subscription[T]{}, keep, opts)
}

func (i *Informer[T]) subscribe(s *Subscription[T], keep func(T) bool, opts []SubscriptionOption) *Subscription[T] {
	s.subscriptionOptions = newSubscriptionOptions(i.common, opts)
	s.informer, s.closing, s.done = i, make(chan struct{}), make(chan struct{})
	i.mu.Lock()
	i.named++
	if s.name == "" {
		s.name = fmt.Sprintf("#%d", i.named)
	}
	i.mu.Unlock()
	for _, observer := range s.observers {
		s.queueing = append(s.queueing, eventqueue.WithObserver(observer.Queues(i.name, s.name))) // nil adds none
	}
	s.queues = eventqueue.FollowFiltered(i.cache, keep, s.queueing...)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscriptions = append(i.subscriptions, s)
	if i.run != nil {
		i.run.serve(s)
	}
	return s
}

func (i *Informer[T]) forget(s *Subscription[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscriptions = slices.DeleteFunc(i.subscriptions, func(other *Subscription[T]) bool { return other == s })
}

// handlers returns the subscriptions with a handler.
func (i *Informer[T]) handlers() []*Subscription[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []*Subscription[T]
	for _, s := range i.subscriptions {
		if s.hasHandler {
			all = append(all, s)
		}
	}
	return all
}

// Metadata is the metadata of an object of kind K, such as corev1.Pod, without the object itself. K
// is only a name: it makes the metadata of pods and of nodes different types. The informer does not
// check that the client serves K.
type Metadata[K any] struct{ *metav1.PartialObjectMetadata }

// NewMetadata returns an informer of the metadata of one resource. The server then sends only
// metadata. The call must name the kind:
//
//	pods := informer.NewMetadata[corev1.Pod](resource.Resource(gvr).Namespace("default"))
//
// For a resource without a Go type for its kind, use [New] with [client.Metadata], or name a
// type of your own.
func NewMetadata[K any](resource metadata.ResourceInterface, opts ...Option) *Informer[Metadata[K]] {
	named := func(m *metav1.PartialObjectMetadata) (Metadata[K], error) { return Metadata[K]{m}, nil }
	return NewTransformed(client.Metadata(resource), named, store.ObjectKey[Metadata[K]], opts...)
}

// Runnable is a part of a program: an [Informer] of any type, a reconciler, or your own type. Package
// manager runs them; one that was added to a manager is its member.
type Runnable interface {
	// Run works until ctx ends, and then returns nil if it did not fail.
	Run(ctx context.Context) error
	// WaitForSync waits until the member is synced. Otherwise its error says why.
	WaitForSync(ctx context.Context) error
	// Ready returns nil, or the reason why a program cannot rely on the member now.
	Ready() error
}

var _ Runnable = (*Informer[any])(nil)

// NewFed returns an informer that another feed than one reflector fills. It is for packages of this
// repository: others cannot name its types, and use package scoped or package clientgo instead.
// NewFed calls makeFeed once. If there is no backing, key is the KeyFunc of the cache.
func NewFed[T any](backing Backing[T], key store.KeyFunc[T], makeFeed func(feed.Target[T]) feed.Group, opts ...Option) *Informer[T] {
	var i *Informer[T]
	if !stream.IsNil(backing) {
		i = newStored(backing, opts)
	} else {
		i = newInformer(store.New(key), opts)
	}
	i.feed = makeFeed(feed.Target[T]{
		Name: i.name, Cache: i.cache, Into: i.into, Partition: i.partition, Report: i.report, Reflector: i.reflectorOptions(),
	})
	return i
}

// report reports a failure of a feed.
func (i *Informer[T]) report(ctx context.Context, err error) {
	version := zap.String("resourceVersion", i.cache.ResourceVersion())
	i.logger.Warn("feed failed", version, zap.Error(err))
	lifecycle.HandleError(ctx, i.logger, i.errorHandler, err, version)
}

// Backing is a cache with a store behind it. An informer uses it instead of its own cache: see
// [NewStored].
type Backing[T any] interface {
	store.BatchStore[T]

	// Cache returns the cache that shows the written objects.
	Cache() *store.Cache[T]

	// Partition returns the store to write to instead of [store.Cache.Partition].
	Partition(scope store.Scope) (store.BatchStore[T], error)

	// Run does the work of the backing until ctx ends. An earlier error ends the informer.
	Run(ctx context.Context) error
}

// NewStored returns an informer that fills your store and shows its contents. If the store
// holds the objects of an earlier process, they can be read before Run is called, and subscribers get
// them first. The informer's Run calls the Run of the store, and ends
// it after the reflector has ended. The informer uses the KeyFunc of the store; Gone and Covers are right only for
// the keys of [store.ObjectKey]. A store serves one informer at a time. A nil store is an error of Run.
func NewStored[T reflector.Object, L any](client reflector.Client[T, L], backing Backing[T], opts ...Option) *Informer[T] {
	if stream.IsNil(backing) {
		i := newInformer(store.New(store.ObjectKey[T]), opts)
		i.into = nil // an error of the reflector
		return newReflecting(i, client)
	}
	return newReflecting(newStored(backing, opts), client)
}

func newStored[T any](backing Backing[T], opts []Option) *Informer[T] {
	i := newInformer(backing.Cache(), opts)
	i.backing, i.into = backing, backing
	return i
}

// partition returns the store for one scope.
func (i *Informer[T]) partition(scope store.Scope) (store.Store[T], error) {
	if i.backing != nil {
		return i.backing.Partition(scope)
	}
	return i.cache.Partition(scope)
}
