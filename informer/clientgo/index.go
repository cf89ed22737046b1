package clientgo

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/tools/cache"
)

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
// If a name is taken, AddIndexers returns an error and adds nothing. It also returns an error if a
// function fails for an object in the cache. It has then added the indexes whose names come earlier
// in the alphabet. If a function later returns an error or panics, the cache rejects the object:
// see [store.AddIndex]. In client-go the program ends.
func (x *Indexer[T]) AddIndexers(indexers cache.Indexers) error {
	x.adding.Lock()
	defer x.adding.Unlock()
	names := slices.Sorted(maps.Keys(indexers))
	for _, name := range names {
		if _, taken := x.added(name); taken {
			return fmt.Errorf("index %q was added before: choose another name", name)
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
	switch {
	case fn == nil:
		return fmt.Errorf("index %q: %w", name, errNoIndexFunc)
	case !isByNamespace(fn):
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
		keys = append(keys, key.String())
	}
	return keys, nil
}

// ByIndex returns the objects with a value.
func (x *Indexer[T]) ByIndex(name, value string) ([]any, error) {
	i, err := x.named(name)
	if err != nil {
		return nil, err
	}
	objects := []any{}
	for _, object := range i.get(x.view.Snapshot(), value) {
		objects = append(objects, object)
	}
	return objects, nil
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
