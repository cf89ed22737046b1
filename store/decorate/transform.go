package decorate

import (
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/store"
)

// Transform returns a store of T that stores in dst the result of fn for each object, such as a
// copy with fewer fields, or a smaller type.
//
// Keys must not change: key derives the key of a T, and the KeyFunc of dst derives the key of its
// S. If the two differ, a [store.Cache] rejects the object with [store.ErrBadKey], because a
// deletion may use either key. Transform passes the UID and the resource version of each T to a
// [store.BatchStore], so S needs no metadata. Transform does not call fn for an object of a list
// that dst holds at the listed version, if a hash says that its bytes are the same. Otherwise dst
// compares the result with the one that it holds. fn should return equal results for equal objects:
// a result with a function, a channel or the current time looks like a change after each list.
//
// If fn returns an error, panics, or returns a nil pointer or interface, Transform rejects the
// object. A deletion needs only the key: if fn fails for the last state, dst deletes the key.
//
// fn must not change its object if other code may use it. fn may run for objects of a list that ends early.
func Transform[T, S any](dst store.Store[S], key store.KeyFunc[T], fn func(T) (S, error)) store.Store[T] {
	if key == nil || fn == nil || isNil(dst) {
		panic("decorate: Transform needs a store, a KeyFunc and a function")
	}
	return &transform[T, S]{dst: dst, batches: batchesOf(dst), keyOf: key, fn: fn, nilable: mayBeNil[S]()}
}

type transform[T, S any] struct {
	dst     store.Store[S]
	batches store.BatchStore[S] // dst if it has its own batches; else nil
	keyOf   store.KeyFunc[T]
	fn      func(T) (S, error)
	nilable bool // S has a nil value that is no object
}

var _ store.BatchStore[any] = (*transform[any, any])(nil)

func (t *transform[T, S]) KeyOf(object T) (store.Key, error) { return keyed(t.keyOf, object) }

func (t *transform[T, S]) Add(object T) error {
	return t.write(store.Write[T]{Type: store.Addition, Object: object})
}

func (t *transform[T, S]) Update(object T) error {
	return t.write(store.Write[T]{Type: store.Modification, Object: object})
}

func (t *transform[T, S]) Delete(object T) error {
	return t.write(store.Write[T]{Type: store.Deletion, Object: object, FinalStateKnown: true})
}

func (t *transform[T, S]) write(w store.Write[T]) error {
	b, _ := BeginWatch(t.dst)
	defer b.Discard()
	_ = b.Write(t.translate(w)) // Commit returns the error
	return b.Commit("")
}

func (t *transform[T, S]) DeleteKey(key store.Key) error { return t.dst.DeleteKey(key) }

func (t *transform[T, S]) Replace(objects []T, resourceVersion string) error {
	b := t.BeginBatch(t, true)
	defer b.Discard()
	for i := range objects {
		if err := b.Write(store.Write[T]{Type: store.Addition, Object: objects[i]}); err != nil {
			break // Commit returns it
		}
	}
	return b.Commit(resourceVersion)
}

func (t *transform[T, S]) Bookmark(resourceVersion string) error {
	return t.dst.Bookmark(resourceVersion)
}

func (t *transform[T, S]) ResourceVersion() string { return t.dst.ResourceVersion() }

func (t *transform[T, S]) Has(key store.Key, version store.Version, hash uint64) bool {
	return t.batches != nil && t.batches.Has(key, version, hash)
}

func (t *transform[T, S]) Resumed() { Resumed(t.dst) }

func (t *transform[T, S]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](t) {
		return nil
	}
	b := &batch[T, S]{of: t, isList: replace}
	b.into, _ = begin(t.dst, replace)
	return b
}

// batch passes each write to a batch of the store behind, as the Transform changed it. In a list it
// transforms neither an object that the store behind holds with the listed content, nor the last
// state of a deletion.
type batch[T, S any] struct {
	of     *transform[T, S]
	into   store.Batch[S]
	isList bool
}

func (b *batch[T, S]) Write(w store.Write[T]) error {
	if b.isList && hasObject(&w) {
		key, version, err := identify(b.of.keyOf, &w)
		switch {
		case w.Type == store.Deletion:
			w = store.Write[T]{Type: store.Deletion, Key: key}
		case err == nil && b.of.Has(key, version, w.Hash):
			b.into.Keep(key)
			return nil
		}
	}
	return b.into.Write(b.of.translate(w))
}

func (b *batch[T, S]) Keep(key store.Key)                  { b.into.Keep(key) }
func (b *batch[T, S]) Commit(resourceVersion string) error { return b.into.Commit(resourceVersion) }
func (b *batch[T, S]) Discard()                            { b.into.Discard() }

// translate returns the write for dst.
func (t *transform[T, S]) translate(w store.Write[T]) store.Write[S] {
	passed := store.Write[S]{Type: w.Type, Key: w.Key, Version: w.Version, Hash: w.Hash, Err: w.Err}
	if !hasObject(&w) {
		return passed
	}
	var err error
	passed.Key, passed.Version, err = identify(t.keyOf, &w)
	if err == nil {
		passed.Object, err = t.call(w.Object)
		passed.FinalStateKnown = err == nil && w.FinalStateKnown
	}
	if w.Type != store.Deletion || passed.Key == (store.Key{}) {
		passed.Err = err
	}
	return passed
}

// call runs the user's function.
func (t *transform[T, S]) call(object T) (result S, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked.Error(value)
		}
		if err != nil {
			var none S
			result, err = none, fmt.Errorf("transform: %w", err)
		}
	}()
	result, err = t.fn(object)
	if err == nil && t.nilable && isNil(result) {
		err = fmt.Errorf("%w: the function returned nil", store.ErrBadKey)
	}
	return result, err
}

// hasObject reports whether a write has an object for the function of a Transform.
func hasObject[T any](w *store.Write[T]) bool {
	return w.Err == nil && (w.Type == store.Addition || w.Type == store.Modification || w.Type == store.Deletion && w.FinalStateKnown)
}

// identify derives the key and the version of the object of a write, unless the write gives them.
func identify[T any](keyOf store.KeyFunc[T], w *store.Write[T]) (key store.Key, version store.Version, err error) {
	key, err = keyed(keyOf, w.Object)
	if version = w.Version; version == (store.Version{}) {
		told, problem := versionOf(w.Object)
		if version = told; err == nil && problem != nil {
			key, err = store.Key{}, problem
		}
	}
	if w.Key == (store.Key{}) {
		return key, version, err
	}
	if err == nil && key != w.Key {
		err = fmt.Errorf("%w: it is %.253q, but the write says %.253q", store.ErrBadKey, key, w.Key)
	}
	return w.Key, version, err
}

// keyed runs a KeyFunc.
func keyed[T any](keyOf store.KeyFunc[T], object T) (key store.Key, err error) {
	defer func() {
		if value := recover(); value != nil {
			key, err = store.Key{}, panicked.Error(value)
		}
	}()
	if key, err = keyOf(object); err == nil && key == (store.Key{}) {
		err = fmt.Errorf("%w: the KeyFunc returned an empty one", store.ErrBadKey)
	}
	return key, err
}

// versionOf returns the version of an object, or an error if its methods panic.
func versionOf[T any](object T) (version store.Version, err error) {
	defer func() {
		if value := recover(); value != nil {
			version, err = store.Version{}, panicked.Error(value)
		}
	}()
	return store.VersionOf(object), nil
}

// mayBeNil reports whether T has a nil value that is no object. A nil slice or map is like an empty
// one.
func mayBeNil[T any]() bool {
	kind := reflect.TypeFor[T]().Kind()
	return kind == reflect.Pointer || kind == reflect.Interface
}

// isNil reports whether a value is nil, or a nil pointer.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
