package store

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file has the rule that tells a change from a repetition (store-S9). A resource version
// names the state that etcd stores, but not the form in which the server shows it. When a
// definition gets a default, or a conversion changes, the server sends other objects under the same
// UIDs and resource versions (kubernetes/kubernetes#123074). So a version that the cache holds says
// that the object has probably not changed, and the content decides:
//
//	version    hash of the bytes      then
//	another    any                    it is a change
//	same       same                   it is unchanged, without a comparison
//	same       another, or unknown    the contents are compared
//
// An unchanged object keeps its pointer, causes no change, and takes the hash of its last bytes, so
// that the next list need not decode it. Two missing versions are no known version: then only the
// contents count.

// unannouncedHash is the hash of an entry that WriteUnannounced stored. Followers do not know its state, so the
// next write of the key is a change even if it has the same content. A field of its own would cost each entry of
// a pointer 16 bytes.
const unannouncedHash = math.MaxUint64

func sameHash(a, b uint64) bool { return a == b && a != 0 && a != unannouncedHash }

// isUnchanged reports whether a write repeats what the cache holds under its key. If so, the entry
// takes the hash of the write.
func (tx *txn[T]) isUnchanged(w *identified[T], held *entry[T]) bool {
	if held.stamp != w.version.stamp() {
		return false // most writes: only the stamp is read, because the held object is in no cache of the CPU
	}
	known := held.known()
	if known != w.version || held.hash == unannouncedHash && !tx.unannounced {
		return false
	}
	hashed := sameHash(w.hash, held.hash) && known.Equal(w.version)
	if !hashed && !EqualContent(held.object, w.object) {
		return false
	}
	if tx.origin != List { // a list has each key once
		for i := range tx.mutations {
			if tx.mutations[i].key == w.key {
				return false // an earlier write of the commit changes the key: see repeats
			}
		}
	}
	if !hashed && w.hash != 0 && !tx.unannounced {
		tx.cache.trees.Lock() // as Has reads it
		held.hash = w.hash
		tx.cache.trees.Unlock()
	}
	return true
}

// hasContent reports whether an entry has a known version and the content with a hash.
func (e *entry[T]) hasContent(version Version, hash uint64) bool {
	return e != nil && sameHash(e.hash, hash) && e.known().Equal(version)
}

// repeats reports whether an entry repeats an earlier one, which the same commit stored. It then
// takes the object of that one, which followers get.
func (e *entry[T]) repeats(earlier *entry[T]) bool {
	version := e.known()
	if version != earlier.known() {
		return false
	}
	isKnown := version.Equal(version) // false without a UID or resource version
	hashed := isKnown && sameHash(e.hash, earlier.hash)
	if !hashed && !EqualContent(earlier.object, e.object) {
		return false
	}
	e.object = earlier.object
	if e.hash == 0 {
		e.hash = earlier.hash
	}
	return true
}

// contentComparer is an object that compares itself, because its fields do not show its content.
type contentComparer[T any] interface{ EqualContent(other T) bool }

// EqualContent reports whether two objects have the same content. A [Cache] compares with it: by the
// method EqualContent(T) bool if T has one, and otherwise by equality.Semantic of apimachinery, for
// which 1 and 1000m are one quantity. An empty list or map equals a missing one if both objects have one
// JSON, as with omitempty; only objects that differ in this alone cost two encodings. A kind and an
// apiVersion that only one of the objects states are no difference. Two equal pointers are equal without a
// look at the object, so a change in place is not found. EqualContent is false for objects that cannot be
// compared, for example because they have functions. A method EqualContent runs under a lock that readers
// take, so it must be quick and must not read the cache.
func EqualContent[T any](a, b T) (equal bool) {
	defer func() {
		if recover() != nil {
			equal = false // a repeated event costs less than a lost one
		}
	}()
	if c, ok := any(a).(contentComparer[T]); ok {
		return c.EqualContent(b)
	}
	return equalObjects(a, b)
}

// equalObjects is EqualContent without type parameters, so that packages with a cache do not
// compile it again.
func equalObjects(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Pointer && y.Kind() == reflect.Pointer && x.Type() == y.Type() && x.Pointer() == y.Pointer() {
		return true
	}
	if _, ok := a.(kinded); !ok && x.IsValid() && y.IsValid() && x.Type() == y.Type() && isExact(x.Type()) {
		return a == b
	}
	return deepEqual(withKinds(a, b))
}

// exactTypes remembers isExact by reflect.Type.
var exactTypes sync.Map

// isExact reports whether == compares values of a type as equality.Semantic does. Such values have no
// version in most cases, so that each update compares them.
func isExact(t reflect.Type) bool {
	if known, ok := exactTypes.Load(t); ok {
		return known.(bool)
	}
	exact := false
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		exact = true
	case reflect.Array:
		exact = isExact(t.Elem())
	case reflect.Struct:
		exact = true
		for i := range t.NumField() {
			exact = exact && isExact(t.Field(i).Type)
		}
	}
	exactTypes.Store(t, exact)
	return exact
}

// deepEqual compares by equality.Semantic. That panics for a field that is not exported, as types
// have that come from no API; these are compared field by field.
func deepEqual(a, b any) (same bool) {
	defer func() {
		if recover() != nil {
			same = reflect.DeepEqual(a, b)
		}
	}()
	if equality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b) {
		return true
	}
	return equality.Semantic.DeepEqual(a, b) && isOneJSON(a, b)
}

func isOneJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// kinded is the part of a runtime.Object that also a type without DeepCopyObject has.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// withKinds returns both objects, with the kind and apiVersion of one for the other if that states
// none. The items of lists lack them where the events of watches have them, so a missing kind is no
// difference.
func withKinds(a, b any) (any, any) {
	x, ok := a.(kinded)
	y, too := b.(kinded)
	if !ok || !too {
		return a, b
	}
	of, other := x.GetObjectKind().GroupVersionKind(), y.GetObjectKind().GroupVersionKind()
	switch {
	case of == other:
	case of.Empty():
		a = withKind(a, other)
	case other.Empty():
		b = withKind(b, of)
	}
	return a, b
}

// withKind returns a copy of an object, which others may read, with a kind. It returns the object
// itself if it finds no place for the kind.
func withKind(object any, kind schema.GroupVersionKind) any {
	if stating, ok := copyWithKind(reflect.ValueOf(object), kind); ok {
		return stating.Interface()
	}
	return object
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

// copyWithKind copies an object, and what it embeds, down to the kind.
func copyWithKind(v reflect.Value, kind schema.GroupVersionKind) (reflect.Value, bool) {
	switch {
	case v.Type() == typeMeta:
		apiVersion, name := kind.ToAPIVersionAndKind()
		return reflect.ValueOf(metav1.TypeMeta{APIVersion: apiVersion, Kind: name}), true
	case v.Kind() == reflect.Pointer && !v.IsNil():
		if inner, ok := copyWithKind(v.Elem(), kind); ok {
			stating := reflect.New(v.Type().Elem())
			stating.Elem().Set(inner)
			return stating, true
		}
		if o, ok := v.Interface().(runtime.Object); ok {
			stating := o.DeepCopyObject()
			stating.GetObjectKind().SetGroupVersionKind(kind)
			return reflect.ValueOf(stating), reflect.TypeOf(stating) == v.Type()
		}
	case v.Kind() == reflect.Interface && !v.IsNil():
		return copyWithKind(v.Elem(), kind)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); !field.Anonymous || !field.IsExported() {
				continue
			}
			if inner, ok := copyWithKind(v.Field(i), kind); ok {
				stating := reflect.New(v.Type()).Elem()
				stating.Set(v)
				stating.Field(i).Set(inner)
				return stating, true
			}
		}
	}
	return reflect.Value{}, false
}
