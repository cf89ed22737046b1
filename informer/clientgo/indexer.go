package clientgo

import (
	"errors"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/tools/cache"
)

// Indexer shows a cache as client-go's cache.Indexer, which generated listers read.
//
// Keys have the form of store.Key's String: "namespace/name", or "name" without a namespace, as
// everywhere in client-go. A key with a cluster begins with "cluster|". Lists are new slices, in
// the order of keys, and show one state of the cache. The objects in them are shared and read-only.
//
// Its methods take and return any because the methods of cache.Indexer do. Typed code reads the
// [store.Cache] itself.
//
// Get one from [AsIndexer] or [AsReadOnlyIndexer]. All methods are safe for concurrent use.
type Indexer[T any] struct {
	view  *store.View[T]
	cache *store.Cache[T] // nil if it is read-only
	// seeding is not nil for the cache of an informer. It returns an error if the informer has
	// started. Otherwise it keeps the informer from starting until done is called.
	seeding func() (done func(), err error)

	adding sync.Mutex // held while indexes are added

	// mu protects the field below it. It is never held while a function of an index runs.
	mu      sync.RWMutex
	indexes map[string]index[T]
}

var _ cache.Indexer = (*Indexer[any])(nil)

// AsIndexer shows a cache to code that wants a cache of client-go, such as a generated lister.
// Writes go to the cache.
func AsIndexer[T any](c *store.Cache[T]) *Indexer[T] {
	x := AsReadOnlyIndexer(&c.View)
	x.cache = c
	return x
}

// AsReadOnlyIndexer is [AsIndexer] for code that may only read: writes return [ErrReadOnly].
func AsReadOnlyIndexer[T any](view *store.View[T]) *Indexer[T] {
	return &Indexer[T]{view: view, indexes: map[string]index[T]{}}
}

// List returns all objects.
func (x *Indexer[T]) List() []any {
	state := x.view.Snapshot()
	objects := make([]any, 0, state.Len())
	for _, object := range state.All() {
		objects = append(objects, object)
	}
	return objects
}

// ListKeys returns the keys of all objects.
func (x *Indexer[T]) ListKeys() []string {
	state := x.view.Snapshot()
	keys := make([]string, 0, state.Len())
	for key := range state.All() {
		keys = append(keys, key.String())
	}
	return keys
}

// Get returns the object in the cache that has the key of the given object: a T, a
// cache.ExplicitKey, a cache.DeletedFinalStateUnknown, or anything with the metadata of a
// Kubernetes object. For anything else it returns a cache.KeyError. An object does not contain its
// cluster: if a cache holds several clusters, use GetByKey.
func (x *Indexer[T]) Get(object any) (any, bool, error) {
	if t, ok := object.(T); ok {
		key, err := x.view.KeyOf(t)
		if err != nil {
			return nil, false, cache.KeyError{Obj: object, Err: err}
		}
		held, ok := x.view.Get(key)
		return exists(held, ok)
	}
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return nil, false, cache.KeyError{Obj: object, Err: err}
	}
	return x.GetByKey(key)
}

// GetByKey returns the object under a key. The error is always nil.
func (x *Indexer[T]) GetByKey(key string) (any, bool, error) {
	for k := range keysOf(key) {
		if held, ok := x.view.Get(k); ok {
			return held, true, nil
		}
	}
	return nil, false, nil
}

// exists returns an untyped nil for a missing object, as callers expect.
func exists[T any](object T, ok bool) (any, bool, error) {
	if !ok {
		return nil, false, nil
	}
	return object, true, nil
}

// LastStoreSyncResourceVersion returns the cache's resource version. It is empty before the first
// Replace, because the cache is incomplete until then.
func (x *Indexer[T]) LastStoreSyncResourceVersion() string { return x.view.ResourceVersion() }

// Add adds an object to the cache.
func (x *Indexer[T]) Add(object any) error { return x.write(object, (*store.Cache[T]).Add) }

// Update updates an object in the cache.
func (x *Indexer[T]) Update(object any) error { return x.write(object, (*store.Cache[T]).Update) }

// Delete deletes an object from the cache: a T, a cache.DeletedFinalStateUnknown or a
// cache.ExplicitKey.
func (x *Indexer[T]) Delete(object any) error {
	switch o := object.(type) {
	case cache.DeletedFinalStateUnknown:
		return x.deleteKey(o.Key)
	case cache.ExplicitKey:
		return x.deleteKey(string(o))
	}
	return x.write(object, (*store.Cache[T]).Delete)
}

func (x *Indexer[T]) deleteKey(text string) error {
	done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	for key := range keysOf(text) {
		if _, ok := x.view.Get(key); ok {
			return x.cache.DeleteKey(key)
		}
	}
	return nil
}

// begin begins a write. It returns [ErrReadOnly] if code may only read.
func (x *Indexer[T]) begin() (done func(), err error) {
	switch {
	case x.seeding != nil:
		return x.seeding()
	case x.cache == nil:
		return nil, ErrReadOnly
	}
	return func() {}, nil
}

// write makes a write of one object: Add, Update or Delete.
func (x *Indexer[T]) write(object any, write func(*store.Cache[T], T) error) error {
	done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	t, err := typed[T](object)
	if err != nil {
		return err
	}
	return write(x.cache, t)
}

// Replace makes the objects the content of the cache. If an object has another type than the cache,
// Replace changes nothing and returns a [*TypeError] for each such object. Before an informer runs,
// Replace ignores the resource version: the informer still lists.
func (x *Indexer[T]) Replace(objects []any, resourceVersion string) error {
	done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	all := make([]T, 0, len(objects))
	var errs []error
	for _, object := range objects {
		t, err := typed[T](object)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, t)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if x.seeding == nil {
		return x.cache.Replace(all, resourceVersion)
	}
	for key := range x.view.Snapshot().All() {
		errs = append(errs, x.cache.DeleteKey(key))
	}
	for _, object := range all {
		errs = append(errs, x.cache.Add(object))
	}
	return errors.Join(errs...)
}

// Bookmark records in the cache that nothing has changed up to a resource version. A read-only
// Indexer and that of an informer ignore it.
func (x *Indexer[T]) Bookmark(resourceVersion string) {
	if x.cache != nil && x.seeding == nil {
		// A cache accepts every bookmark, except for a cache with partitions, where each partition
		// has its own version.
		_ = x.cache.Bookmark(resourceVersion)
	}
}

// Resync does nothing, as in client-go: event queues resync.
func (x *Indexer[T]) Resync() error { return nil }
