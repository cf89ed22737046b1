package series

import (
	"maps"
	"slices"
	"sync"
)

// ReflectorStore has the five methods of part 1's Store that a reflector calls. client-go 0.37 calls it
// ReflectorStore, the Java outcome EventCache. Library: store.Store.
type ReflectorStore[T Object] interface {
	Add(T) error
	Update(T) error
	Delete(T) error
	Replace(objects []T, version string) error
	Resync() error
}

// Reader has the four methods of part 1's Store that a reader calls. Library: store.Reader.
type Reader[T Object] interface {
	List() []T
	ListKeys() []string
	Get(T) (T, bool)
	GetByKey(key string) (T, bool)
}

// Store is part 1's Store with its nine methods. Library: store.Cache.
type Store[T Object] interface {
	ReflectorStore[T]
	Reader[T]
}

// KeyOf is MetaNamespaceKeyFunc. Library: store.ObjectKey.
func KeyOf[T Object](object T) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// Map is the simplest Store. It is also the known objects of the later parts.
type Map[T Object] struct{ objects sync.Map }

func (m *Map[T]) Add(object T) error     { m.objects.Store(KeyOf(object), object); return nil }
func (m *Map[T]) Update(object T) error  { return m.Add(object) }
func (m *Map[T]) Delete(object T) error  { m.objects.Delete(KeyOf(object)); return nil }
func (m *Map[T]) Resync() error          { return nil }
func (m *Map[T]) Get(object T) (T, bool) { return m.GetByKey(KeyOf(object)) }
func (m *Map[T]) ListKeys() []string     { return slices.Sorted(maps.Keys(m.all())) }
func (m *Map[T]) List() []T              { return slices.Collect(maps.Values(m.all())) }

// Replace is not one step: a reader may see the new objects beside the old ones. Library:
// store.Cache.Replace publishes one state.
func (m *Map[T]) Replace(objects []T, _ string) error {
	gone := m.all()
	for _, object := range objects {
		delete(gone, KeyOf(object))
		m.objects.Store(KeyOf(object), object)
	}
	for key := range gone {
		m.objects.Delete(key)
	}
	return nil
}

func (m *Map[T]) GetByKey(key string) (object T, ok bool) {
	value, ok := m.objects.Load(key)
	if ok {
		object = value.(T)
	}
	return object, ok
}

func (m *Map[T]) all() map[string]T {
	all := map[string]T{}
	m.objects.Range(func(key, object any) bool { all[key.(string)] = object.(T); return true })
	return all
}
