package clientgo

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/tools/cache"
)

// Indexer shows a cache as client-go's cache.Indexer, which generated listers read.
//
// Keys have the form of store.Key's String: "namespace/name", or "name" without a namespace, as
// everywhere in client-go; "namespace/" or "" for an object without a name. A key with a cluster begins
// with "cluster|". The index by namespace, which listers read, takes the namespace of the key, so that it
// needs no memory: if a KeyFunc of your own leaves the namespace out, no object is found by it.
//
// Lists are new slices, in the order of keys, and show one state of the cache. The objects in them are
// shared and read-only.
//
// Its methods take and return any because the methods of cache.Indexer do. Typed code reads the
// [store.Cache] itself.
//
// Get one from [AsIndexer] or [AsReadOnlyIndexer]. All methods are safe for concurrent use.
type Indexer[T any] struct {
	view  *store.View[T]
	cache *store.Cache[T] // nil if it is read-only
	// admit is not nil for the cache of an informer. It says how to write: see admission. After a
	// seeding write the caller calls done, until which the informer does not start.
	admit func() (how admission, done func(), err error)

	// seeded has the keys of seeding writes, if it is not nil. The mutation detector passes over them.
	seeded *sync.Map

	adding sync.Mutex // held while indexes are added

	// mu protects the field below it. It is never held while a function of an index runs.
	mu      sync.RWMutex
	indexes map[string]index[T]
}

var _ cache.Indexer = (*Indexer[any])(nil)

// admission says how code may write to a cache.
type admission uint8

const (
	owning  admission = iota // as the only writer of the cache
	seeding                  // before the informer starts, whose first list replaces everything
	beside                   // beside the reflector, without events
)

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
		keys = append(keys, keyText(key))
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
func (x *Indexer[T]) Add(object any) error { return x.put(store.Addition, object) }

// Update updates an object in the cache.
func (x *Indexer[T]) Update(object any) error { return x.put(store.Modification, object) }

// Delete deletes an object from the cache: a T, a cache.DeletedFinalStateUnknown or a
// cache.ExplicitKey.
func (x *Indexer[T]) Delete(object any) error {
	switch o := object.(type) {
	case cache.DeletedFinalStateUnknown:
		return x.deleteKey(o.Key)
	case cache.ExplicitKey:
		return x.deleteKey(string(o))
	}
	return x.put(store.Deletion, object)
}

func (x *Indexer[T]) deleteKey(text string) error {
	how, done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	for key := range keysOf(text) {
		if _, ok := x.view.Get(key); ok {
			return x.write(how, store.Write[T]{Type: store.Deletion, Key: key})
		}
	}
	return nil
}

// put makes a write of one object.
func (x *Indexer[T]) put(change store.ChangeType, object any) error {
	how, done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	t, err := typed[T](object)
	if err != nil {
		return err
	}
	return x.write(how, store.Write[T]{Type: change, Object: t, FinalStateKnown: true})
}

// begin begins a write. It returns [ErrReadOnly] if code may only read.
func (x *Indexer[T]) begin() (how admission, done func(), err error) {
	switch {
	case x.admit != nil:
		return x.admit()
	case x.cache == nil:
		return owning, nil, ErrReadOnly
	}
	return owning, func() {}, nil
}

// write makes writes in one commit.
func (x *Indexer[T]) write(how admission, writes ...store.Write[T]) error {
	if how == beside {
		return x.cache.WriteUnannounced(ours.Only{}, writes...)
	}
	batch := x.cache.BeginBatch(x.cache, false)
	for _, w := range writes {
		if how == seeding && x.seeded != nil && w.Type != store.Deletion {
			if key, err := x.cache.KeyOf(w.Object); err == nil {
				x.seeded.Store(key, true)
			}
		}
		_ = batch.Write(w) // Commit returns the error
	}
	return batch.Commit("")
}

// Replace makes the objects the content of the cache. If an object has another type than the cache,
// Replace changes nothing and returns a [*TypeError] for each such object. In the cache of an
// informer, Replace ignores the resource version: the version is that of the informer's reflector.
func (x *Indexer[T]) Replace(objects []any, resourceVersion string) error {
	how, done, err := x.begin()
	if err != nil {
		return err
	}
	defer done()
	all := make([]T, 0, len(objects))
	stay := make(map[store.Key]bool, len(objects))
	var errs []error
	for _, object := range objects {
		t, err := typed[T](object)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if key, err := x.view.KeyOf(t); err == nil { // the write returns the error
			stay[key] = true
		}
		all = append(all, t)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if how == owning {
		return x.cache.Replace(all, resourceVersion)
	}
	var writes []store.Write[T]
	for key := range x.view.Snapshot().All() {
		if !stay[key] {
			writes = append(writes, store.Write[T]{Type: store.Deletion, Key: key})
		}
	}
	for _, object := range all {
		writes = append(writes, store.Write[T]{Type: store.Addition, Object: object})
	}
	return x.write(how, writes...)
}

// Bookmark records in the cache that nothing has changed up to a resource version. A read-only
// Indexer and that of an informer ignore it.
func (x *Indexer[T]) Bookmark(resourceVersion string) {
	if x.cache != nil && x.admit == nil {
		// A cache accepts every bookmark, except for a cache with partitions, where each partition
		// has its own version.
		_ = x.cache.Bookmark(resourceVersion)
	}
}

// Resync does nothing, as in client-go: event queues resync.
func (x *Indexer[T]) Resync() error { return nil }

// index is an index that was added by AddIndexers.
type index[T any] struct {
	fn cache.IndexFunc
	// found is nil for the index by namespace, which every cache has.
	found *store.Index[string, T]
}

var errNoIndexFunc = errors.New("no index function")

// isByNamespace recognises the index that most programs add. It needs no memory, because keys are
// ordered by namespace.
func isByNamespace(fn cache.IndexFunc) bool {
	return reflect.ValueOf(fn).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

// AddIndexers adds indexes, at any time. It indexes the objects in the cache before it returns. The
// index by namespace, cache.NamespaceIndex, exists without it, but can still be added once.
//
// If an index of a name was added through this Indexer, or a function is nil, AddIndexers returns an error
// and adds nothing. It also returns an error if the cache has the name from elsewhere, or a function fails
// for an object in the cache. It has then added the indexes whose names come earlier in the alphabet. If
// a function later returns an error or panics, the cache rejects the object: see [store.AddIndex]. In
// client-go the program ends.
func (x *Indexer[T]) AddIndexers(indexers cache.Indexers) error {
	x.adding.Lock()
	defer x.adding.Unlock()
	names := slices.Sorted(maps.Keys(indexers))
	for _, name := range names {
		if _, taken := x.added(name); taken {
			return fmt.Errorf("index %q was added before: choose another name", name)
		}
		if indexers[name] == nil {
			return fmt.Errorf("index %q: %w", name, errNoIndexFunc)
		}
	}
	for _, name := range names {
		if err := x.add(name, indexers[name]); err != nil {
			return err
		}
	}
	return nil
}

func (x *Indexer[T]) add(name string, fn cache.IndexFunc) error {
	added := index[T]{fn: fn}
	if !isByNamespace(fn) {
		found, err := store.AddIndex(x.view, name, func(object T) []string {
			values, err := fn(object)
			if err != nil {
				panic(err) // the way to reject an object
			}
			return values
		})
		if found == nil {
			return err
		}
		added.found = found
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.indexes[name] = added
	return nil
}

func (x *Indexer[T]) added(name string) (index[T], bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.indexes[name]
	return i, ok
}

// named returns an index by its name, or an error that wraps [ErrNoIndex].
func (x *Indexer[T]) named(name string) (index[T], error) {
	if i, ok := x.added(name); ok {
		return i, nil
	}
	if name == cache.NamespaceIndex {
		return index[T]{fn: cache.MetaNamespaceIndexFunc}, nil
	}
	return index[T]{}, fmt.Errorf("index %q: %w", name, ErrNoIndex)
}

// GetIndexers returns the functions of the indexes, including the index by namespace. The map is a
// copy.
func (x *Indexer[T]) GetIndexers() cache.Indexers {
	all := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for name, i := range x.indexes {
		all[name] = i.fn
	}
	return all
}

// Index returns the objects that share a value with the given object, which need not be in the
// cache.
func (x *Indexer[T]) Index(name string, object any) ([]any, error) {
	i, err := x.named(name)
	if err != nil {
		return nil, err
	}
	values, err := i.fn(object)
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", name, err)
	}
	state := x.view.Snapshot()
	if len(values) == 1 { // as for each list of a namespace: generated listers get it here
		return i.list(state, values[0]), nil
	}
	found := map[store.Key]T{}
	for _, value := range values {
		maps.Insert(found, i.get(state, value))
	}
	return inOrder(found), nil
}

func inOrder[T any](objects map[store.Key]T) []any {
	ordered := make([]any, 0, len(objects))
	for _, key := range slices.SortedFunc(maps.Keys(objects), store.Key.Compare) {
		ordered = append(ordered, objects[key])
	}
	return ordered
}

// IndexKeys returns the keys of the objects with a value.
func (x *Indexer[T]) IndexKeys(name, value string) ([]string, error) {
	i, err := x.named(name)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for key := range i.get(x.view.Snapshot(), value) {
		keys = append(keys, keyText(key))
	}
	return keys, nil
}

// ByIndex returns the objects with a value.
func (x *Indexer[T]) ByIndex(name, value string) ([]any, error) {
	i, err := x.named(name)
	if err != nil {
		return nil, err
	}
	return i.list(x.view.Snapshot(), value), nil
}

// ListIndexFuncValues returns all values of the index, in no particular order. It returns none for
// an unknown index.
func (x *Indexer[T]) ListIndexFuncValues(name string) []string {
	i, err := x.named(name)
	if err != nil {
		return nil
	}
	if i.found != nil {
		return slices.Collect(i.found.Values())
	}
	namespaces := []string{}
	for key := range x.view.Snapshot().All() {
		if last := len(namespaces) - 1; last < 0 || namespaces[last] != key.Namespace {
			namespaces = append(namespaces, key.Namespace)
		}
	}
	slices.Sort(namespaces) // there may be several clusters
	return slices.Compact(namespaces)
}

// get iterates over the objects of a snapshot with a value.
func (i index[T]) get(state *store.Snapshot[T], value string) iter.Seq2[store.Key, T] {
	if i.found == nil {
		return state.Namespace(value)
	}
	return i.found.On(state).Get(value)
}

// list returns the objects of a snapshot with a value, in the order of their keys.
func (i index[T]) list(state *store.Snapshot[T], value string) []any {
	objects := []any{}
	for _, object := range i.get(state, value) {
		objects = append(objects, object)
	}
	return objects
}

// keysOf iterates over the keys that a string may stand for, the likeliest first. "a/b" is a
// namespace and a name, but a key from another source than Kubernetes may be a name with a slash.
// "c|a/b" has a cluster, but names of some resources, such as roles, may contain a bar.
func keysOf(text string) iter.Seq[store.Key] {
	return func(yield func(store.Key) bool) {
		if text == "" {
			yield(nameless)
			return
		}
		if !eachForm("", text, yield) {
			return
		}
		if cluster, rest, ok := strings.Cut(text, "|"); ok {
			eachForm(cluster, rest, yield)
		}
	}
}

// eachForm yields a namespace and a name if there is a slash, and then a name.
func eachForm(cluster, text string, yield func(store.Key) bool) bool {
	if strings.Contains(text, "/") && !yield(namespaced(cluster, text)) {
		return false
	}
	return yield(store.Key{Cluster: cluster, Name: text})
}

// namespaced returns the key for a text of client-go.
func namespaced(cluster, text string) store.Key {
	if text == "" {
		return nameless
	}
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		namespace, name = "", text
	}
	return store.Key{Cluster: cluster, Namespace: namespace, Name: name}
}

// nameless is the key of an object with neither a namespace nor a name, whose key is empty in client-go:
// a store takes no empty key. No name of Kubernetes has this character.
var nameless = store.Key{Name: "\x00"}

// keyText returns a key as cache.MetaNamespaceKeyFunc makes it.
func keyText(key store.Key) string {
	if key == nameless {
		return ""
	}
	return key.String()
}

// objectKey is [store.ObjectKey], but also has a key for an object without a name.
func objectKey[T reflector.Object](object T) (store.Key, error) {
	key, err := store.ObjectKey(object)
	return orNameless(object, key, err)
}

// allNamed returns a KeyFunc that also has a key for an object without a name.
func allNamed[T any](keyOf store.KeyFunc[T]) store.KeyFunc[T] {
	if keyOf == nil {
		return nil // the store refuses it
	}
	return func(object T) (store.Key, error) {
		key, err := keyOf(object)
		return orNameless(object, key, err)
	}
}

// orNameless returns the key of an object, or, as cache.MetaNamespaceKeyFunc does, one for an object without
// a name. A fake clientset stores an object that has only a generateName under an empty name.
func orNameless[T any](object T, key store.Key, err error) (store.Key, error) {
	if err == nil || !errors.Is(err, store.ErrBadKey) {
		return key, err
	}
	o, ok := any(object).(interface {
		GetName() string
		GetNamespace() string
	})
	if !ok || reflect.ValueOf(object).IsZero() || o.GetName() != "" {
		return key, err
	}
	if namespace := o.GetNamespace(); namespace != "" {
		return store.Key{Namespace: namespace}, nil
	}
	return nameless, nil
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
