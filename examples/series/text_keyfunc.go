package series

import (
	"errors"
	"maps"
	"slices"
	"sync"
)

// KeyFunc makes the key under which a store keeps an object. In client-go it takes an interface{},
// so it begins with a check of the type; here the compiler has checked it.
//
// Library: store.KeyFunc, whose keys have two fields.
type KeyFunc[T any] func(object T) (string, error)

// ObjectKey is MetaNamespaceKeyFunc as a KeyFunc: KeyOf with an error for an object without a name.
func ObjectKey[T Object](object T) (string, error) {
	if object.GetName() == "" {
		return "", errors.New("the object has no name")
	}
	return KeyOf(object), nil
}

// KeyedStore keeps values of any type, because nothing but the key function knows what they are.
// The tutorial at leftasexercise.com keeps books in one.
//
// Library: store.Cache.
type KeyedStore[T any] struct {
	keyOf KeyFunc[T]

	mu      sync.RWMutex // guards objects
	objects map[string]T
}

// NewKeyedStore makes an empty store.
func NewKeyedStore[T any](keyOf KeyFunc[T]) *KeyedStore[T] {
	return &KeyedStore[T]{keyOf: keyOf, objects: map[string]T{}}
}

// Add also replaces: the store believes that two objects with the same key are the same object.
func (s *KeyedStore[T]) Add(object T) error {
	key, err := s.keyOf(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object
	return nil
}

// GetByKey returns the object that was added last under the key.
func (s *KeyedStore[T]) GetByKey(key string) (object T, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, ok = s.objects[key]
	return object, ok
}

// ListKeys returns all keys in their order.
func (s *KeyedStore[T]) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.objects))
}
