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

// ErrBadKey means that an object has no key, or another key than the [Write] says. It is nil or has
// no name, or two KeyFuncs do not agree. Fix the object or the KeyFunc; a KeyFunc may return it.
var ErrBadKey = errors.New("object has no usable key")

var (
	errNilObject = fmt.Errorf("%w: it is nil", ErrBadKey)
	errNoName    = fmt.Errorf("%w: its name is empty", ErrBadKey)
)

// ObjectKey is the KeyFunc of Kubernetes objects: namespace and name. A nil object, also one whose nil
// has a type, and an object without a name have no key ([ErrBadKey]).
func ObjectKey[T Object](object T) (Key, error) {
	if v := reflect.ValueOf(object); !v.IsValid() || v.IsZero() {
		return Key{}, fmt.Errorf("%v: %w", reflect.TypeFor[T](), errNilObject)
	}
	key := Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	if key.Name == "" {
		return Key{}, fmt.Errorf("%v in namespace %.253q: %w", reflect.TypeFor[T](), key.Namespace, errNoName)
	}
	return key, nil
}
