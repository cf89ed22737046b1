package decorate

import (
	"fmt"

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
	if key == nil || fn == nil {
		panic("decorate: Transform needs a KeyFunc and a function")
	}
	t := &transform[T, S]{decorator: newDecorator[T]("Transform", dst), keyOf: key, fn: fn, nilable: mayBeNil[S]()}
	t.self, t.pass = t, t.translate
	return t
}

type transform[T, S any] struct {
	decorator[T, S]
	keyOf   store.KeyFunc[T]
	fn      func(T) (S, error)
	nilable bool
}

var _ store.BatchStore[any] = (*transform[any, any])(nil)

func (t *transform[T, S]) KeyOf(object T) (store.Key, error) { return keyed(t.keyOf, object) }

// BeginBatch is BeginBatch of a decorator, except for lists: see listBatch.
func (t *transform[T, S]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	b := t.decorator.BeginBatch(self, replace)
	if b == nil || !replace {
		return b
	}
	return &listBatch[T, S]{b, t}
}

// listBatch transforms neither an object that the store behind holds with the listed content, nor
// the last state of a deletion.
type listBatch[T, S any] struct {
	store.Batch[T]
	of *transform[T, S]
}

func (b *listBatch[T, S]) Write(w store.Write[T]) error {
	if !hasObject(&w) {
		return b.Batch.Write(w)
	}
	key, version, err := identify(b.of.keyOf, &w)
	switch {
	case w.Type == store.Deletion:
		w = store.Write[T]{Type: store.Deletion, Key: key}
	case err == nil && b.of.Has(key, version, w.Hash):
		b.Keep(key)
		return nil
	}
	return b.Batch.Write(w)
}

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
