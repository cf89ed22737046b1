package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Key identifies an object within a [Store]. The zero Key identifies nothing.
//
// Cluster is empty unless one cache holds objects of several clusters. Namespace is empty for
// objects that belong to no namespace. A key has no UID: an object that is deleted and created anew
// under its name keeps its key.
type Key struct {
	Cluster   string
	Namespace string
	Name      string
}

// String returns "namespace/name", or "name" without a namespace; with a cluster,
// "cluster|namespace/name". Use it for messages only: the cache compares and hashes Keys by their
// fields.
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

// Compare orders keys by cluster, then namespace, then name, as [strings.Compare] does. Every
// [Reader] iterates in this order.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Cluster, other.Cluster); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// KeyFunc returns the key of an object. Use one KeyFunc for a whole pipeline, so that the cache,
// event queues and subscribers never disagree. It must be pure: the same object always has the same
// key. Most programs use [ObjectKey].
type KeyFunc[T any] func(T) (Key, error)

// ErrBadKey means that an object has no key, or another key than its [Write] says. The object is
// nil or has no name, or two KeyFuncs do not agree. Fix the object or the KeyFunc. A KeyFunc may
// return this error.
var ErrBadKey = errors.New("object has no usable key")

var (
	errNilObject = fmt.Errorf("%w: it is nil", ErrBadKey)
	errNoName    = fmt.Errorf("%w: its name is empty", ErrBadKey)
)

// ObjectKey is the KeyFunc of Kubernetes objects: namespace and name. A nil object, a typed nil,
// and an object without a name have no key ([ErrBadKey]).
//
// The constraint does not embed comparable, unlike client-go's. So one piece of machine code serves
// all pointer types.
func ObjectKey[T interface {
	GetName() string
	GetNamespace() string
}](object T) (Key, error) {
	if v := reflect.ValueOf(object); !v.IsValid() || v.IsZero() {
		return Key{}, fmt.Errorf("%v: %w", reflect.TypeFor[T](), errNilObject)
	}
	key := Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	if key.Name == "" {
		return Key{}, fmt.Errorf("%v in namespace %.253q: %w", reflect.TypeFor[T](), key.Namespace, errNoName)
	}
	return key, nil
}

// Version identifies one state of one object: the UID identifies the object, and the resource
// version identifies the state. A Version with an empty UID or an empty resource version is
// unknown, and never equal to any other.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// Equal reports whether both versions are known and the same.
func (v Version) Equal(other Version) bool {
	return v.UID != "" && v.ResourceVersion != "" && v == other
}

// recreated reports whether other is known to belong to another object than v.
func (v Version) recreated(other Version) bool {
	return v.UID != "" && other.UID != "" && v.UID != other.UID
}

// stamp is a hash of a version: versions with different stamps differ.
func (v Version) stamp() uint64 {
	return 31*maphash.String(stamps, v.ResourceVersion) ^ maphash.String(stamps, string(v.UID))
}

var stamps = maphash.MakeSeed()

// VersionOf returns the version of an object with the methods GetUID and GetResourceVersion. Other
// objects have none. It panics if these methods panic, as they do for a nil pointer.
func VersionOf[T any](object T) (version Version) {
	if o, ok := any(object).(versioned); ok {
		version = Version{o.GetUID(), o.GetResourceVersion()}
	}
	return version
}

type versioned interface {
	GetUID() types.UID
	GetResourceVersion() string
}

// knownVersion is VersionOf, but returns no version if the methods of the object panic.
func knownVersion[T any](object T) (version Version) {
	defer func() {
		if recover() != nil {
			version = Version{}
		}
	}()
	return VersionOf(object)
}

// findUID returns the key and the entry of an object whose deletion came without its last state, so that the
// KeyFunc could not say the key. The key of the write is then the namespace and the name, and held is the entry under
// it: where a KeyFunc returns other keys, that may be another object. The UID is the same under each key. found is
// false if the cache has no such object.
func (tx *txn[T]) findUID(w *identified[T], held *entry[T]) (key Key, of *entry[T], found bool) {
	uid := w.version.UID
	if w.entry != nil || uid == "" || !tx.cache.otherKeys.Load() || held != nil && !held.known().recreated(w.version) {
		return w.key, held, true
	}
	for _, m := range slices.Backward(tx.mutations) {
		if m.next != nil && m.next.known().UID == uid {
			return m.key, m.next, true
		}
	}
	var scope *Scope
	if tx.in != nil {
		scope = &tx.in.scope
	}
	for e := range tx.cache.within(scope) {
		if e.known().UID == uid {
			return e.key(), e, true
		}
	}
	return w.key, nil, false
}

// isNamed reports whether a key is the namespace and the name of an object. It is false for a type that does not
// show these.
func isNamed[T any](key Key, object T) bool {
	o, ok := any(object).(interface {
		GetNamespace() string
		GetName() string
	})
	return ok && key == Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}
