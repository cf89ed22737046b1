package store

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Key identifies an object within a [Store]. The zero Key identifies nothing.
//
// Cluster is empty unless one cache holds objects of several clusters.
// Namespace is empty for objects that live in no namespace. UIDs are no part of
// a key: two objects that live one after the other under one name share it.
type Key struct {
	Cluster   string
	Namespace string
	Name      string
}

// String returns "namespace/name", or "name" without a namespace; with a
// cluster, "cluster|namespace/name". It is for people: Keys are compared and
// hashed as they are.
func (k Key) String() string {
	s := k.Name
	if k.Namespace != "" {
		s = k.Namespace + "/" + s
	}
	if k.Cluster != "" {
		s = k.Cluster + "|" + s
	}
	return s
}

// Compare orders keys by cluster, then namespace, then name, as [strings.Compare]
// does. It is the order in which every [Reader] iterates.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Cluster, other.Cluster); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// KeyFunc returns the key of an object. One KeyFunc goes through a whole
// pipeline, so that cache, event queues and subscribers never disagree. It must
// be pure: the same object always has the same key. [ObjectKey] is the usual
// one.
type KeyFunc[T any] func(T) (Key, error)

// Object is what [ObjectKey] needs: every Kubernetes object has it. It is the
// constraint of the same name in client-go's tools/cache, but for comparable:
// without that, one piece of machine code serves all types that are pointers.
type Object interface {
	GetName() string
	GetNamespace() string
}

var (
	// ErrNilObject means that there was no object where one was expected: a
	// nil, typed or not, or the zero value of T.
	ErrNilObject = errors.New("object is nil")

	// ErrNoName means that an object has no name, and so no key.
	ErrNoName = errors.New("object has no name")

	// ErrNoKeyFunc means that a store in front of others does not know how they derive keys: they
	// have no method KeyOf(T) (Key, error).
	ErrNoKeyFunc = errors.New("store behind does not tell its KeyFunc: give it a method KeyOf")
)

// KeyError is what [ObjectKey] returns: Err is [ErrNilObject] or [ErrNoName].
type KeyError struct {
	// Type is the Go type of the object, such as "*v1.Pod".
	Type string
	// Namespace is the object's namespace, if it has one.
	Namespace string
	Err       error
}

// Error names the type and, where known, the namespace of the object.
func (e *KeyError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("%s in namespace %q has no key: %v", e.Type, e.Namespace, e.Err)
	}
	return fmt.Sprintf("%s has no key: %v", e.Type, e.Err)
}

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// ObjectKey is the KeyFunc of Kubernetes objects: namespace and name. It
// returns a [*KeyError] for a nil object, also one whose nil has a type, and
// for an object without a name.
func ObjectKey[T Object](object T) (Key, error) {
	if v := reflect.ValueOf(object); !v.IsValid() || v.IsZero() {
		return Key{}, &KeyError{Type: reflect.TypeFor[T]().String(), Err: ErrNilObject}
	}
	key := Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	if key.Name == "" {
		return Key{}, &KeyError{Type: reflect.TypeFor[T]().String(), Namespace: key.Namespace, Err: ErrNoName}
	}
	return key, nil
}
