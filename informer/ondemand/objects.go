package ondemand

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is what is asked of whole objects, and of what stands for them in the cache of
// the metadata: who they are, and in which state. Every Kubernetes object has it, and so
// has what informer.NewMetadata caches.
type Object interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Client fetches one object. Every client that a reflector can have is one.
type Client[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Cluster is for [New] the function of a resource that has no namespaces: it returns one
// client for everything.
//
//	ondemand.New(ondemand.Cluster(clientset.CoreV1().Nodes()), metas.Cache())
func Cluster[C any](client C) func(namespace string) C { return func(string) C { return client } }

// Objects has the whole objects that were used last, and fetches others. See the package
// documentation for what it guarantees.
//
// Create it with [New]. All methods are safe for concurrent use.
type Objects[T Object] struct {
	limits  options
	clients func(namespace string) Client[T]
	// meta returns what stands for an object in the cache of the metadata.
	meta     func(store.Key) (store.Version, bool)
	complete func() bool
	stop     func()
	running  sync.WaitGroup

	// mu protects the fields below it. The writer of the metadata takes it inside its own
	// lock; whoever holds it may read the metadata.
	mu       sync.Mutex
	recent   recent[T]
	flights  map[store.Key]*flight[T]
	closed   bool
	hits     uint64
	requests uint64
}

// New returns objects that are fetched by the client of their namespace, such as
// clientset.CoreV1().Pods returns it, and whose metadata is in a cache. The keys of that
// cache have no clusters: several clusters have one Objects each. It follows the cache
// until it is closed. An error is [ErrNoClient] or [ErrNoMetadata].
func New[T Object, C Client[T], M Object](clients func(namespace string) C, metadata *store.View[M], opts ...Option) (*Objects[T], error) {
	if clients == nil {
		return nil, ErrNoClient
	}
	if metadata == nil {
		return nil, ErrNoMetadata
	}
	limits := options{objects: DefaultMaxObjects}
	for _, opt := range opts {
		opt.apply(&limits)
	}
	o := &Objects[T]{
		limits:  limits,
		clients: func(namespace string) Client[T] { return clients(namespace) },
		meta: func(key store.Key) (store.Version, bool) {
			m, ok := metadata.Get(key)
			if !ok {
				return store.Version{}, false
			}
			return versionOf(m), true
		},
		complete: func() bool { return metadata.Snapshot().Synced() },
		recent:   newRecent[T](limits),
		flights:  map[store.Key]*flight[T]{},
	}
	o.stop = metadata.Follow(&follower[T, M]{of: o})
	return o, nil
}

// attempts bounds how often an object is fetched because its metadata moved meanwhile.
const attempts = 4

// Get returns an object: the one that is kept, if it is not older than its metadata, and
// else what the server has. If the metadata changes while the object is fetched, it is
// fetched again, a few times at most: then it is as new as the metadata was when Get was
// called, at least.
//
// It returns a [*NotFoundError], [ErrNotSynced], [ErrClosed], a [*FetchError], or the cause
// of ctx.
func (o *Objects[T]) Get(ctx context.Context, key store.Key) (object T, err error) {
	none := object
	wanted, ok := o.meta(key)
	if !ok {
		if !o.complete() {
			return none, ErrNotSynced
		}
		return none, &NotFoundError{Key: key}
	}
	if object, ok := o.hit(key); ok {
		return object, nil
	}
	for attempt := range attempts {
		var own bool
		object, own, err = o.fetch(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
			// A request of before this call may have been answered between the end of
			// one object and the beginning of the next.
			if _, ok := o.meta(key); ok && !own && attempt == 0 {
				continue
			}
			return none, &NotFoundError{Key: key, Err: err}
		case err != nil:
			return none, o.failed(ctx, key, err)
		}
		err = o.current(key, object)
		if missing, ok := errors.AsType[*NotFoundError](err); ok {
			return none, missing
		}
		if err == nil {
			return object, nil
		}
	}
	if !covers(versionOf(object), wanted) {
		return none, &FetchError{Key: key, Err: err}
	}
	return object, nil
}

// failed says why a request failed.
func (o *Objects[T]) failed(ctx context.Context, key store.Key, err error) error {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	if closed {
		return ErrClosed // which ends the requests
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return &FetchError{Key: key, Err: err}
}

// hit returns an object that is kept and not older than its metadata.
func (o *Objects[T]) hit(key store.Key) (object T, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if object, ok = o.peekLocked(key); ok {
		o.recent.use(key)
		o.hits++
	}
	return object, ok
}

func (o *Objects[T]) peekLocked(key store.Key) (object T, ok bool) {
	object, ok = o.recent.get(key)
	if !ok || o.current(key, object) != nil {
		var none T
		return none, false
	}
	return object, true
}

// current returns why an object is not what the metadata has under its key, or nil.
func (o *Objects[T]) current(key store.Key, object T) error {
	wanted, ok := o.meta(key)
	if !ok {
		return &NotFoundError{Key: key}
	}
	if !covers(versionOf(object), wanted) {
		return ErrStale
	}
	return nil
}

// covers reports whether a version is that of what is wanted, or a later one.
func covers(version, wanted store.Version) bool {
	if version.Equal(wanted) {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version.ResourceVersion, wanted.ResourceVersion)
	if err != nil || order < 0 {
		return false
	}
	// A later version is of the same object, or of one that took its name since.
	return order > 0 || version.UID == wanted.UID
}

func versionOf(object Object) store.Version {
	return store.Version{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// Peek returns an object if it is kept and not older than its metadata. It never asks the
// server, and is no use of the object.
func (o *Objects[T]) Peek(key store.Key) (object T, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peekLocked(key)
}

// Close ends following the metadata and all requests, and keeps nothing any more. It
// returns when the requests have ended. It may be called more than once, but not from a
// follower of the metadata.
func (o *Objects[T]) Close() {
	o.stop()
	o.mu.Lock()
	o.closed = true
	for _, f := range o.flights {
		f.cancel()
	}
	o.recent = newRecent[T](o.limits)
	o.mu.Unlock()
	o.running.Wait()
}

// isNil reports whether a value is nil, or a pointer that is.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
