package ondemand

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"weak"

	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/internal/versions"
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
	meta    func(store.Key) (store.Version, bool) // reads the cache of the metadata
	rejects func(store.Key) bool                  // whether that cache may have rejected the object
	listed  func(store.Key) bool                  // whether the object's scope has had its first list; true without a scope
	state   func() state                          // of the cache of the metadata
	stop    func()                                // ends the follower of the metadata
	running sync.WaitGroup
	closing context.Context    // ends with Close, and ends the requests
	end     context.CancelFunc // called while lifecycle and agreed.mu are held
	agreed  agreed[T]

	// lifecycle protects the begin and end of following owned caches. It is taken first: a holder waits for
	// the writers of these caches. No reader takes it.
	lifecycle sync.Mutex

	// mu protects the fields below it. The writer of the metadata takes it inside its own lock. A
	// holder of mu may read the metadata.
	mu       sync.Mutex
	recent   recent[T]
	flights  map[store.Key]*flight[T]
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
		recent:  newRecent[T](limits),
		flights: map[store.Key]*flight[T]{},
		agreed:  agreed[T]{Engine: byreference.New(), requested: map[store.Key]state{}, asked: map[*flight[T]]store.Key{}, refused: map[*byreference.Watch]error{}},
	}
	o.closing, o.end = context.WithCancel(context.Background())
	o.meta = func(key store.Key) (version store.Version, known bool) {
		if m, ok := metadata.Get(key); ok {
			return store.VersionOf(m), true
		}
		return version, false
	}
	o.rejects = func(key store.Key) bool {
		rejected := metadata.Rejected
		for _, p := range metadata.Partitions() {
			if p.Scope().Contains(key) {
				rejected = p.Rejected
			}
		}
		return slices.ContainsFunc(rejected(), func(r store.Key) bool { return r == key || r == store.Key{} })
	}
	o.listed = func(key store.Key) bool {
		return !slices.ContainsFunc(metadata.Partitions(), func(p *store.Partition[M]) bool {
			return p.Scope().Contains(key) && !p.Synced()
		})
	}
	o.state = func() state { return weak.Make(metadata.Snapshot()) }
	o.stop = metadata.Follow(&follower[T, M]{o, metadata})
	return o, nil
}

// lookup returns the metadata of an object, if the cache has them. Otherwise, rejected reports whether the object
// may exist, because that cache rejected its metadata: each read asks the server then.
func (o *Objects[T]) lookup(key store.Key) (meta store.Version, known, rejected bool) {
	if meta, known = o.meta(key); known {
		return meta, true, false
	}
	rejected = o.rejects(key)
	meta, known = o.meta(key) // after rejects: a key leaves the rejected ones when its metadata are shown
	return meta, known, rejected && !known
}

// demand is what an object must satisfy to be current.
type demand struct {
	meta  store.Version // of the metadata; zero if the metadata is behind
	floor string        // the resource version that was read; empty if the metadata has passed it
}

func (d demand) metBy(version store.Version) bool {
	if d.meta != (store.Version{}) && !covers(version, d.meta) {
		return false
	}
	return d.floor == "" || version.ResourceVersion == d.floor || versions.Later(version.ResourceVersion, d.floor)
}

// demand returns what the current state of an object must satisfy, or why there is no object.
func (o *Objects[T]) demand(key store.Key) (demand, error) {
	if o.isClosed() { // what was agreed does not change any more
		return demand{}, ErrClosed
	}
	o.agreed.mu.Lock()
	defer o.agreed.mu.Unlock()
	listed := o.listed(key) // before lookup, so that a list in between is not missed
	meta, known, rejected := o.lookup(key)
	d := demand{meta: meta, floor: o.agreed.Shown(key).ResourceVersion}
	for _, err := range o.agreed.refused {
		return demand{}, err // of any watch
	}
	switch {
	case known, rejected, d.floor != "":
		return d, nil
	case listed && o.agreed.Metadata().Synced(): // the cache stays synced when a scope is added
		return demand{}, &NotFoundError{Key: key}
	}
	return demand{}, ErrNotSynced
}

// attempts bounds how often Get fetches an object whose metadata changes meanwhile.
const attempts = 4

// Get returns the kept object if it is not older than its metadata. Otherwise Get fetches the
// object from the server. If the metadata changes during the request, Get fetches the object again,
// up to four times in all. The result is then at least as new as the metadata at the time of the
// call.
//
// It returns a [*NotFoundError], [ErrNotSynced], [ErrVersions], [ErrClosed], a [*FetchError], or the
// cause of ctx.
func (o *Objects[T]) Get(ctx context.Context, key store.Key) (object T, err error) {
	none := object
	if object, ok := o.Cached(key); ok {
		return object, nil
	}
	wanted, err := o.demand(key)
	if err != nil {
		return none, err
	}
	for attempt := range attempts {
		var own bool
		object, own, err = o.fetch(ctx, key)
		switch {
		case missing.Path(err):
			// The object may exist elsewhere, so the error must not be taken for a 404 of the object.
			return none, o.failed(ctx, key, fmt.Errorf("server has no such path: %v", err))
		case apierrors.IsNotFound(err):
			// A request that began before this call may have been answered between the deletion of
			// one object and the creation of the next.
			if _, known, rejected := o.lookup(key); (known || rejected) && !own && attempt == 0 {
				continue
			}
			return none, &NotFoundError{Key: key, Err: err}
		case err != nil:
			return none, o.failed(ctx, key, err)
		}
		err = o.current(key, object)
		if gone, ok := errors.AsType[*NotFoundError](err); ok {
			return none, gone
		}
		if err == nil {
			return object, nil
		}
	}
	if !wanted.metBy(store.VersionOf(object)) {
		return none, &FetchError{Key: key, Err: err}
	}
	return object, nil
}

// Cached returns an object that Get would return without a request. It counts as a use of the
// object.
func (o *Objects[T]) Cached(key store.Key) (object T, ok bool) {
	if object, ok = o.ownedObject(key); ok {
		return object, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if object, ok = o.peekLocked(key); ok {
		o.recent.use(key)
		o.hits++
	}
	return object, ok
}

// failed returns the error for a failed request.
func (o *Objects[T]) failed(ctx context.Context, key store.Key, err error) error {
	if o.isClosed() {
		return ErrClosed // Close ends the requests
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return &FetchError{Key: key, Err: err}
}

// peekLocked returns a kept object that is not older than its metadata.
func (o *Objects[T]) peekLocked(key store.Key) (object T, ok bool) {
	object, ok = o.recent.get(key)
	if ok && o.current(key, object) == nil {
		if _, _, rejected := o.lookup(key); !rejected { // no change of the metadata would drop it
			return object, true
		}
	}
	var none T
	return none, false
}

// current returns why an object is not current, or nil.
func (o *Objects[T]) current(key store.Key, object T) error {
	wanted, err := o.demand(key)
	if err == nil && !wanted.metBy(store.VersionOf(object)) {
		err = ErrStale
	}
	return err
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

// Close stops following the caches, ends all requests, and drops all fetched objects. It returns
// when the requests have ended. It may be called more than once, but not from a follower of the
// caches.
func (o *Objects[T]) Close() {
	o.stop()
	o.unfollow()
	o.mu.Lock() // a request that has begun is in running, and no other begins
	o.recent = newRecent[T](o.limits)
	o.mu.Unlock()
	o.running.Wait()
}

func (o *Objects[T]) isClosed() bool { return o.closing.Err() != nil }

// isNil reports whether a value is nil, or a pointer that is.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Stats are the statistics of [Objects].
type Stats struct {
	// Kept is the number of objects that are kept.
	Kept int
	// Bytes estimates the memory of the kept objects, as [store.AddBudget] does. It is 0
	// without [WithMaxBytes].
	Bytes int64
	// Hits counts the calls of Get and Cached that returned a kept object. Objects of the
	// caches of [Objects.AddOwned] do not count.
	Hits uint64
	// Requests counts the started requests.
	Requests uint64
}

// Stats returns the statistics.
func (o *Objects[T]) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{Kept: o.recent.order.Len(), Bytes: o.recent.size, Hits: o.hits, Requests: o.requests}
}

// DefaultMaxObjects is the default of [WithMaxObjects].
const DefaultMaxObjects = 1000

// Option configures [Objects].
type Option interface{ apply(*options) }

type options struct {
	objects int
	bytes   int64 // 0 for no limit
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithMaxObjects sets how many objects are kept. The default is [DefaultMaxObjects]. With 0 or less
// none are kept, so every Get is a request.
func WithMaxObjects(n int) Option {
	return optionFunc(func(o *options) { o.objects = max(n, 0) })
}

// WithMaxBytes sets how much memory the kept objects take, as [store.AddBudget] estimates it. A
// single object over the limit is not kept. The default is no limit; 0 and less mean the same.
// [WithMaxObjects] still applies.
func WithMaxBytes(n int64) Option {
	return optionFunc(func(o *options) { o.bytes = max(n, 0) })
}

var (
	// ErrNoClient means that [New] was given no function that returns clients, or that
	// it returned none.
	ErrNoClient = errors.New("no client: pass a function that returns one, such as clientset.CoreV1().Pods")

	// ErrNoMetadata means that [New] was given no cache of the metadata.
	ErrNoMetadata = errors.New("no cache of the metadata: pass that of an informer")

	// ErrNotSynced means that the cache of the metadata is not filled yet, so the existing objects
	// are unknown. Wait for its informer first.
	ErrNotSynced = errors.New("the metadata is not synced: wait for its informer")

	// ErrStale means that the server repeatedly returned an older state than the cached metadata: a
	// component in between is caching.
	ErrStale = errors.New("server answers with an older state than it told before")

	// ErrVersions means that the resource versions of the kind cannot be compared, or that its lists
	// have none. Then nothing says which of two answers is older, so cache the kind whole. The next
	// list with a version ends it.
	ErrVersions = byreference.ErrVersions

	// ErrClosed means that [Objects.Close] was called.
	ErrClosed = errors.New("closed")
)

// NotFoundError says that there is no such object.
type NotFoundError struct {
	Key store.Key
	// Err is the answer of the server; nil if the metadata does not have the object.
	Err error
}

// Error names the object.
func (e *NotFoundError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%q not found by the server, though its metadata is still in the cache: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%q not found in the cache of the metadata", e.Key)
}

// Unwrap returns Err.
func (e *NotFoundError) Unwrap() error { return e.Err }

// Status makes apierrors.IsNotFound recognize the error.
func (e *NotFoundError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: e.Error()}
}

// FetchError says that an object could not be fetched.
type FetchError struct {
	Key store.Key
	// Err is the error of the client, [ErrStale], or a panic of the client, which wraps [store.ErrPanic]
	// and whose errors.Unwrap has the value.
	// If the server has no such path, Err only has the text of the client's error, so that nobody takes
	// it for the 404 of an object.
	Err error
}

// Error names the object and the cause.
func (e *FetchError) Error() string { return fmt.Sprintf("fetching %q: %v", e.Key, e.Err) }

// Unwrap returns Err.
func (e *FetchError) Unwrap() error { return e.Err }
