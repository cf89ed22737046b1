package clientgo

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// IntoStore returns a store.Store that writes to a store of client-go, such as the one in which
// kube-state-metrics keeps metrics instead of objects:
//
//	reflector.New(client, clientgo.IntoStore[*corev1.Pod](metrics))
//
// The store need not be able to read, and may have any keys, such as UIDs: IntoStore keeps the
// resource version, and the UID of each object. The store gets an object in each call, never a
// cache.DeletedFinalStateUnknown. If the last state of a deleted object is unknown, this is an object of the
// type of the others with only its namespace, name and UID. An object that was deleted and created again is a Delete and an Add.
//
// If Add or Update fails, the reflector reports the object as rejected, and retries it after a
// back-off. If Replace fails, IntoStore deletes and adds the objects one by one, to find those that
// the store rejects.
//
// Its write methods are for one goroutine at a time, such as that of a reflector. ResourceVersion may
// be called from any goroutine. A nil store is an error of the reflector's Run.
func IntoStore[T reflector.Object](to cache.Store) store.Store[T] {
	if stream.IsNil(to) {
		return nil
	}
	return &intoStore[T]{to: to, known: map[store.Key]types.UID{}, rejected: map[store.Key]bool{}}
}

// NewReflectorWithOptions is cache.NewReflectorWithOptions, for a program with a store of its own, such as
// kubelet or kube-state-metrics. The reflector is one of this module over [IntoStore], which says what the store
// gets. Each Run begins with a list, which reaches the store as a Replace, because some stores count as filled
// only after one. A list or an event with an object of another type than the example is reported and not stored;
// a nil example allows all types. Other failures are reported where client-go reports them.
//
// HasSynced of the controller is true once the first list is in the store. The options ResyncPeriod,
// MinWatchTimeout, Clock and Backoff have no effect.
func NewReflectorWithOptions(lw cache.ListerWatcher, example any, to cache.Store, options cache.ReflectorOptions) cache.Controller {
	name := cmp.Or(options.Name, options.TypeDescription, listwatch.Name(example))
	h := &hooks[Object]{name: name, prepare: exactly(example)}
	into := IntoStore[Object](to)
	if into != nil {
		into = decorate.Transform(into, objectKey[Object], h.transformed)
	}
	return filling{
		reflector: reflector.New(listwatch.Client[Object](lw), into,
			reflector.WithName(name), reflector.WithErrorHandler(h.failed), reflector.WithInitialList()),
		name: name, logger: options.Logger,
	}
}

// filling is the controller of a reflector that fills a store of client-go.
type filling struct {
	reflector *reflector.KubernetesResourceReflector[Object]
	name      string
	logger    *klog.Logger // nil for the logger of the context
}

func (f filling) Run(stop <-chan struct{}) { f.RunWithContext(wait.ContextForChannel(stop)) }

func (f filling) RunWithContext(ctx context.Context) {
	ctx, cancel := ending(ctx)
	defer cancel()
	if f.logger != nil {
		ctx = klog.NewContext(ctx, *f.logger)
	}
	if err := f.reflector.Run(ctx); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Reflector ended", "reflector", f.name)
	}
}

func (f filling) HasSynced() bool { return cache.IsDone(f.HasSyncedChecker()) }
func (f filling) HasSyncedChecker() cache.DoneChecker {
	return synced{"reflector " + f.name, f.reflector.Synced()}
}
func (f filling) LastSyncResourceVersion() string { return f.reflector.State().ResourceVersion }

type intoStore[T reflector.Object] struct {
	to       cache.Store
	known    map[store.Key]types.UID // the objects in the store
	kind     reflect.Type            // of the object that was written last
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
	s.kind = reflect.TypeOf(object)
	return nil
}

// drop deletes an object whose last state is unknown.
func (s *intoStore[T]) drop(key store.Key) error {
	uid, known := s.known[key]
	if !known {
		return nil
	}
	if err := s.to.Delete(lastKnown(s.kind, key, uid)); err != nil {
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
		if len(objects) > 0 {
			s.kind = reflect.TypeOf(objects[0])
		}
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
func lastKnown(kind reflect.Type, key store.Key, uid types.UID) any {
	var object metav1.Object = &metav1.PartialObjectMetadata{}
	if kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Struct && !embedsPointer(kind.Elem()) {
		if own, ok := reflect.New(kind.Elem()).Interface().(metav1.Object); ok {
			object = own
		}
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	object.SetUID(uid)
	return object
}

// embedsPointer reports whether a struct may have its metadata behind a pointer, which is nil in a new one.
func embedsPointer(s reflect.Type) bool {
	for i := range s.NumField() {
		if f := s.Field(i); f.Anonymous && (f.Type.Kind() != reflect.Struct || embedsPointer(f.Type)) {
			return true
		}
	}
	return false
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
