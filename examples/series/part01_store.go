package series

import (
	"maps"
	"slices"
	"sync"
)

// Store is the Store of part 1, with its nine methods. No caller needs all of them: a reflector calls
// five and a reader four, so the two halves have types of their own here.
//
// Library: store.Cache.
type Store[T Object] interface {
	ReflectorStore[T]
	Reader[T]
}

// ReflectorStore is the half that a reflector calls. client-go has it under this name today, and the
// Java outcome has three methods of it: EventCache, in part09_javareflector.go.
//
// Library: store.Store.
type ReflectorStore[T Object] interface {
	Add(object T) error
	Update(object T) error
	Delete(object T) error
	Replace(objects []T, version string) error
	Resync() error
}

// Reader is the other half. Part 3 meets two of its methods as KeyListerGetter: ListKeys and GetByKey.
//
// Library: store.Reader.
type Reader[T Object] interface {
	List() []T
	ListKeys() []string
	Get(object T) (T, bool)
	GetByKey(key string) (T, bool)
}

// KeyOf is MetaNamespaceKeyFunc.
//
// Library: store.ObjectKey.
func KeyOf[T Object](object T) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// Map is the simplest Store. The later parts keep their known objects in it.
type Map[T Object] struct {
	mu      sync.RWMutex // guards objects
	objects map[string]T
}

func (m *Map[T]) Add(object T) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string]T{}
	}
	m.objects[KeyOf(object)] = object
	return nil
}

func (m *Map[T]) Update(object T) error { return m.Add(object) }

func (m *Map[T]) Delete(object T) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, KeyOf(object))
	return nil
}

func (m *Map[T]) Replace(objects []T, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = map[string]T{}
	for _, object := range objects {
		m.objects[KeyOf(object)] = object
	}
	return nil
}

// Resync has nothing to do, because a Map has no consumer to which it could repeat its objects.
func (m *Map[T]) Resync() error { return nil }

// List returns the objects in the order of their keys, so that programs and tests print the same each
// time. client-go's order is that of a map: random.
func (m *Map[T]) List() []T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var objects []T
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		objects = append(objects, m.objects[key])
	}
	return objects
}

func (m *Map[T]) ListKeys() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.objects))
}

func (m *Map[T]) Get(object T) (T, bool) { return m.GetByKey(KeyOf(object)) }

func (m *Map[T]) GetByKey(key string) (T, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	object, ok := m.objects[key]
	return object, ok
}
