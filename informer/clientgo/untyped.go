package clientgo

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of any kind. It is the T of the informers that [NewSharedIndexInformer]
// makes, so the program compiles one informer for all kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// NewSharedIndexInformer is cache.NewSharedIndexInformer. It is
// [NewSharedIndexInformerWithOptions] with two of the options.
func NewSharedIndexInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewSharedInformer is cache.NewSharedInformer: [NewSharedIndexInformer] without indexers.
func NewSharedInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, example, resync, nil)
}

// NewSharedIndexInformerWithOptions is cache.NewSharedIndexInformerWithOptions. The ListerWatcher
// sends the requests and decodes the objects, so they cost what they cost in client-go. The
// informer brings its cache, its queues and its handling of errors. [NewTyped] costs less: it knows
// the type of the objects.
//
// The cache rejects an object of another type than the example with a [*TypeError]. A nil example
// accepts every type. A nil ListerWatcher is an error of Run. The metrics of the queue and of
// handlers need an InformerMetricsProvider in the options. The one of the store's resource version
// also reaches the provider of cache.SetInformerMetricsProvider. The result is a
// *SharedIndexInformer[Object]. NewSharedIndexInformerWithOptions panics if an indexer has no
// function.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	name := options.ObjectDescription
	if name == "" {
		name = listwatch.Name(example)
	}
	return newUntyped(listwatch.Client[Object](lw), &hooks[Object]{prepare: exactly(example)}, name, options)
}

// FromClient is [NewSharedIndexInformerWithOptions] over a client of this module, such as one of
// client.ForType, which decodes the server's responses itself. It names the informer after
// ObjectDescription. A transform may edit its object: it gets a copy, because the objects of such a
// client share equal parts.
func FromClient[L any](client reflector.Client[Object, L], options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	return newUntyped(client, &hooks[Object]{}, options.ObjectDescription, options)
}

// newUntyped makes an informer of objects of any kind.
func newUntyped[L any](from reflector.Client[Object, L], h *hooks[Object], name string, options cache.SharedIndexInformerOptions) *SharedIndexInformer[Object] {
	opts := []Option{WithResync(options.ResyncPeriod), WithInformer(informer.WithName(name))}
	measured := newMetrics[Object](options)
	if measured != nil {
		opts = append(opts, WithInformer(informer.WithObserver(measured)))
	}
	s := newInformer(from, h, opts)
	if measured != nil {
		s.informer.Follow(measured)
	}
	if err := s.AddIndexers(options.Indexers); err != nil {
		panic(fmt.Sprintf("clientgo: new informer of %s: %v", name, err))
	}
	return s
}

// exactly returns a function that rejects objects of another type than the example.
func exactly(example runtime.Object) func(Object) (Object, error) {
	want := reflect.TypeOf(example)
	if want == nil {
		return nil
	}
	return func(object Object) (Object, error) {
		if got := reflect.TypeOf(object); got != want {
			return nil, &TypeError{Want: want.String(), Got: got.String()}
		}
		return object, nil
	}
}

// IntoStore returns a store.Store that writes to a store of client-go, such as the one in which
// kube-state-metrics keeps metrics instead of objects:
//
//	reflector.New(client, clientgo.IntoStore[*corev1.Pod](metrics))
//
// The store need not be able to read, and may have any keys, such as UIDs: IntoStore keeps the
// resource version, and the UID of each object. The store gets a T in each call, never a
// cache.DeletedFinalStateUnknown. If the last state of a deleted object is unknown, this T has only
// its namespace, name and UID. An object that was deleted and created again is a Delete and an Add.
//
// If Add or Update fails, the reflector reports the object as rejected, and retries it after a
// back-off. If Replace fails, IntoStore deletes and adds the objects one by one, to find those that
// the store rejects.
//
// Its write methods are for one goroutine at a time, such as that of a reflector. ResourceVersion may
// be called from any goroutine.
func IntoStore[T reflector.Object](to cache.Store) store.Store[T] {
	return &intoStore[T]{to: to, known: map[store.Key]types.UID{}, rejected: map[store.Key]bool{}}
}

type intoStore[T reflector.Object] struct {
	to       cache.Store
	known    map[store.Key]types.UID // the objects in the store
	rejected map[store.Key]bool      // the objects that the store lacks
	filled   bool                    // there was a Replace
	observed string                  // the version up to which every change was written or rejected

	mu      sync.Mutex
	version string // stays before rejected objects. Guarded by mu
}

func (s *intoStore[T]) Add(object T) error { return s.put(object) }

func (s *intoStore[T]) Update(object T) error { return s.put(object) }

func (s *intoStore[T]) put(object T) error {
	key := keyOfObject(object)
	err := s.write(key, object)
	s.advance(object.GetResourceVersion())
	if err != nil {
		return &store.RejectedError{Rejections: []store.Rejection{rejection(key, object, err)}}
	}
	return nil
}

// write adds or updates an object in the store.
func (s *intoStore[T]) write(key store.Key, object T) error {
	uid, known := s.known[key]
	var err error
	if known && uid != object.GetUID() {
		known, err = false, s.drop(key)
	}
	switch {
	case err != nil:
	case known:
		err = s.to.Update(object)
	default:
		err = s.to.Add(object)
	}
	if err != nil {
		s.rejected[key] = true
		return err
	}
	delete(s.rejected, key)
	s.known[cloneKey(key)] = types.UID(strings.Clone(string(object.GetUID())))
	return nil
}

// drop deletes an object whose last state is unknown.
func (s *intoStore[T]) drop(key store.Key) error {
	uid, known := s.known[key]
	if !known {
		return nil
	}
	if err := s.to.Delete(lastKnown[T](key, uid)); err != nil {
		s.rejected[key] = true
		return err
	}
	delete(s.known, key)
	return nil
}

func (s *intoStore[T]) Delete(object T) error {
	key := keyOfObject(object)
	var err error
	if uid, known := s.known[key]; known && uid != object.GetUID() {
		err = s.drop(key)
	} else if known {
		err = s.to.Delete(object)
	}
	s.deleted(key, err)
	s.advance(object.GetResourceVersion())
	if err != nil {
		return &store.RejectedError{Rejections: []store.Rejection{rejection(key, object, err)}}
	}
	return nil
}

func (s *intoStore[T]) DeleteKey(key store.Key) error {
	err := s.drop(key)
	s.deleted(key, err)
	s.advance("")
	return err
}

func (s *intoStore[T]) deleted(key store.Key, err error) {
	if err != nil {
		s.rejected[key] = true
		return
	}
	delete(s.rejected, key)
	delete(s.known, key)
}

func (s *intoStore[T]) Replace(objects []T, resourceVersion string) error {
	all := make([]any, len(objects))
	listed := make(map[store.Key]types.UID, len(objects))
	for i, object := range objects {
		all[i] = object
		listed[cloneKey(keyOfObject(object))] = types.UID(strings.Clone(string(object.GetUID())))
	}
	clear(s.rejected)
	var rejections []store.Rejection
	if s.to.Replace(all, resourceVersion) == nil {
		s.known = listed
	} else {
		rejections = s.replaceOneByOne(objects, listed)
	}
	s.filled = true
	if len(rejections) > 0 {
		s.set("") // the list may be older than the store
		s.observed = resourceVersion
		sortRejections(rejections)
		return &store.RejectedError{Rejections: rejections}
	}
	s.advance(resourceVersion)
	return nil
}

func (s *intoStore[T]) replaceOneByOne(objects []T, listed map[store.Key]types.UID) (rejections []store.Rejection) {
	for key := range s.known {
		if _, ok := listed[key]; !ok {
			if err := s.drop(key); err != nil {
				rejections = append(rejections, store.Rejection{Key: key, Err: err})
			}
		}
	}
	for _, object := range objects {
		key := keyOfObject(object)
		if err := s.write(key, object); err != nil {
			rejections = append(rejections, rejection(key, object, err))
		}
	}
	return rejections
}

func (s *intoStore[T]) Bookmark(resourceVersion string) error {
	s.to.Bookmark(resourceVersion)
	s.advance(resourceVersion)
	return nil
}

func (s *intoStore[T]) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// advance records the version of a write. The version of the store stays before rejected objects.
func (s *intoStore[T]) advance(version string) {
	if version != "" {
		s.observed = version
	}
	if s.filled && len(s.rejected) == 0 {
		s.set(s.observed)
	}
}

func (s *intoStore[T]) set(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// lastKnown returns what is known of an object that was deleted.
func lastKnown[T reflector.Object](key store.Key, uid types.UID) any {
	var object metav1.Object = &metav1.PartialObjectMetadata{}
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		if own, ok := reflect.New(t.Elem()).Interface().(metav1.Object); ok {
			object = own
		}
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	object.SetUID(uid)
	return object
}

func keyOfObject(object reflector.Object) store.Key {
	return store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// cloneKey returns a key that keeps no object in memory.
func cloneKey(key store.Key) store.Key {
	return store.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
}

func rejection(key store.Key, object reflector.Object, err error) store.Rejection {
	return store.Rejection{Key: key, Version: store.Version{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}, Err: err}
}

// sortRejections is not inlined, so that packages with an intoStore do not compile the sort again.
//
//go:noinline
func sortRejections(all []store.Rejection) {
	slices.SortFunc(all, func(a, b store.Rejection) int { return a.Key.Compare(b.Key) })
}
