package series

import (
	"maps"
	"slices"
	"sync"
)

// IndexFunc returns the values under which an index finds an object, such as the node of a pod.
type IndexFunc[T Object] func(object T) []string

// Indexer is a Store that also finds objects by a value. The informer writes it, and a Lister reads
// it.
//
// Library: store.Cache with store.Index.
type Indexer[T Object] struct {
	Map[T]
	valuesOf IndexFunc[T]

	mu   sync.Mutex // guards keys
	keys map[string]map[string]bool
}

// NewIndexer makes an empty Indexer with one index.
func NewIndexer[T Object](valuesOf IndexFunc[T]) *Indexer[T] {
	return &Indexer[T]{valuesOf: valuesOf, keys: map[string]map[string]bool{}}
}

// Add replaces the object. As client-go does, it asks the index function again which values the
// prior object had.
func (i *Indexer[T]) Add(object T) error {
	if prior, known := i.Get(object); known {
		i.unindex(prior)
	}
	i.index(object)
	return i.Map.Add(object)
}

// Update is Add.
func (i *Indexer[T]) Update(object T) error { return i.Add(object) }

// Delete removes the object and its values.
func (i *Indexer[T]) Delete(object T) error {
	if prior, known := i.Get(object); known {
		i.unindex(prior)
	}
	return i.Map.Delete(object)
}

// Replace replaces all objects and makes the index again.
func (i *Indexer[T]) Replace(objects []T, version string) error {
	i.mu.Lock()
	clear(i.keys)
	i.mu.Unlock()
	for _, object := range objects {
		i.index(object)
	}
	return i.Map.Replace(objects, version)
}

// ByIndex returns the objects with a value, in the order of their keys.
func (i *Indexer[T]) ByIndex(value string) (objects []T) {
	i.mu.Lock()
	keys := slices.Sorted(maps.Keys(i.keys[value]))
	i.mu.Unlock()
	for _, key := range keys {
		if object, ok := i.GetByKey(key); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func (i *Indexer[T]) index(object T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, value := range i.valuesOf(object) {
		if i.keys[value] == nil {
			i.keys[value] = map[string]bool{}
		}
		i.keys[value][KeyOf(object)] = true
	}
}

func (i *Indexer[T]) unindex(object T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, value := range i.valuesOf(object) {
		if delete(i.keys[value], KeyOf(object)); len(i.keys[value]) == 0 {
			delete(i.keys, value) // or the values of deleted objects would stay
		}
	}
}
