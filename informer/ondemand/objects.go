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

// Object is the interface of whole objects and of their cached metadata: identity and version.
// Every Kubernetes object has it, and so have the objects of informer.NewMetadata.
type Object interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// Client fetches one object. Every client of a reflector is a Client.
type Client[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Cluster returns the function for [New] for a resource without namespaces: it returns one client
// for everything.
//
//	ondemand.New(ondemand.Cluster(clientset.CoreV1().Nodes()), metas.Cache())
func Cluster[C any](client C) func(namespace string) C { return func(string) C { return client } }

// Objects keeps the most recently used whole objects, and fetches others. See the package
// documentation for its guarantees.
//
// Create it with [New]. All methods are safe for concurrent use.
type Objects[T Object] struct {
	limits  options
	clients func(namespace string) Client[T]
	// meta returns the version of an object in the cache of the metadata.
	meta     func(store.Key) (store.Version, bool)
	complete func() bool
	stop     func()
	running  sync.WaitGroup

	// mu protects the fields below it. The writer of the metadata takes it inside its own lock. A
	// holder of mu may read the metadata.
	mu       sync.Mutex
	recent   recent[T]
	flights  map[store.Key]*flight[T]
	closed   bool
	hits     uint64
	requests uint64
}

// New returns an Objects for a resource. clients returns the client of a namespace, such as
// clientset.CoreV1().Pods. metadata is a cache with the metadata of the resource. Its keys have no
// clusters: use one Objects for each cluster. Objects follows the cache until it is closed. An
// error is [ErrNoClient] or [ErrNoMetadata].
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

// attempts bounds how often Get fetches an object whose metadata changes meanwhile.
const attempts = 4

// Get returns the kept object if it is not older than its metadata. Otherwise Get fetches the
// object from the server. If the metadata changes during the request, Get fetches the object again,
// up to four times in all. The result is then at least as new as the metadata at the time of the
// call.
//
// It returns a [*NotFoundError], [ErrNotSynced], [ErrClosed], a [*FetchError], or the cause of ctx.
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
			// A request that began before this call may have been answered between the deletion of
			// one object and the creation of the next.
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

// failed returns the error for a failed request.
func (o *Objects[T]) failed(ctx context.Context, key store.Key, err error) error {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	if closed {
		return ErrClosed // Close ends the requests
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return &FetchError{Key: key, Err: err}
}

// hit returns a kept object that is not older than its metadata.
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

// current returns why an object does not match its metadata, or nil.
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

// covers reports whether a version is the wanted version or a later one.
func covers(version, wanted store.Version) bool {
	if version.Equal(wanted) {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version.ResourceVersion, wanted.ResourceVersion)
	if err != nil || order < 0 {
		return false
	}
	// A later version belongs to the same object, or to a newer object with the same name.
	return order > 0 || version.UID == wanted.UID
}

func versionOf(object Object) store.Version {
	return store.Version{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// Peek returns a kept object that is not older than its metadata. It sends no request, and does not
// count as a use of the object.
func (o *Objects[T]) Peek(key store.Key) (object T, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peekLocked(key)
}

// Close stops following the metadata, ends all requests, and drops all objects. It returns when the
// requests have ended. It may be called more than once, but not from a follower of the metadata.
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
