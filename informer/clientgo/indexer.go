package clientgo

import (
	"errors"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/tools/cache"
)

// Indexer is a cache as client-go's tools/cache knows it: what generated listers read.
//
// Keys are as store.Key's String writes them: "namespace/name", or "name" without a
// namespace, as everywhere in client-go, and with "cluster|" in front for a key with a
// cluster. Lists are new slices, in the order of keys, of one state of the cache; the
// objects in them are shared and read-only.
//
// Its methods take and return any because those of cache.Indexer do: code that has a type
// reads the [store.Cache] itself.
//
// Get one from [AsIndexer] or [AsReadOnlyIndexer]. All methods are safe for concurrent
// use.
type Indexer[T any] struct {
	view  *store.View[T]
	cache *store.Cache[T] // nil if it is read-only

	adding sync.Mutex // held while indexes are added

	// mu protects the field below it. It is never held while a function of an index
	// runs.
	mu      sync.RWMutex
	indexes map[string]index[T]
}

var _ cache.Indexer = (*Indexer[any])(nil)

// AsIndexer shows a cache to code that wants one of client-go's, such as a generated
// lister. Writes go to the cache.
func AsIndexer[T any](c *store.Cache[T]) *Indexer[T] {
	x := AsReadOnlyIndexer(&c.View)
	x.cache = c
	return x
}

// AsReadOnlyIndexer is [AsIndexer] for hands that may only read: writes fail with
// [ErrReadOnly].
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

// Get returns what is held under the key of an object: a T, a cache.ExplicitKey, a
// cache.DeletedFinalStateUnknown, or anything with the metadata of a Kubernetes object.
// For anything else it returns a cache.KeyError. An object does not say which cluster it
// is of: where a cache holds several, use GetByKey.
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

// GetByKey returns what is held under a key. The error is always nil.
func (x *Indexer[T]) GetByKey(key string) (any, bool, error) {
	for k := range keysOf(key) {
		if held, ok := x.view.Get(k); ok {
			return held, true, nil
		}
	}
	return nil, false, nil
}

// exists returns a nil without a type for what is not there, as callers expect.
func exists[T any](object T, ok bool) (any, bool, error) {
	if !ok {
		return nil, false, nil
	}
	return object, true, nil
}

// LastStoreSyncResourceVersion returns the cache's resource version. It is empty before
// the first Replace: until then nobody knows what is missing.
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
	if x.cache == nil {
		return ErrReadOnly
	}
	for key := range keysOf(text) {
		if _, ok := x.view.Get(key); ok {
			return x.cache.DeleteKey(key)
		}
	}
	return nil
}

// write makes a write of one object: Add, Update or Delete.
func (x *Indexer[T]) write(object any, write func(*store.Cache[T], T) error) error {
	if x.cache == nil {
		return ErrReadOnly
	}
	t, err := typed[T](object)
	if err != nil {
		return err
	}
	return write(x.cache, t)
}

// Replace makes the objects the content of the cache. If some are not of the cache's
// type, nothing is replaced, and it returns a [*TypeError] for each.
func (x *Indexer[T]) Replace(objects []any, resourceVersion string) error {
	if x.cache == nil {
		return ErrReadOnly
	}
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
	return x.cache.Replace(all, resourceVersion)
}

// Bookmark tells the cache that nothing has happened up to a resource version. A
// read-only Indexer ignores it.
func (x *Indexer[T]) Bookmark(resourceVersion string) {
	if x.cache != nil {
		// A cache takes every bookmark, but for one with partitions, whose
		// version is not for others to say.
		_ = x.cache.Bookmark(resourceVersion)
	}
}

// Resync does nothing, as in client-go: event queues resync.
func (x *Indexer[T]) Resync() error { return nil }
