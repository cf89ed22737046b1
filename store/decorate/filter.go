package decorate

import (
	"fmt"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/store"
)

// Filter returns a store that writes to dst the objects that keep accepts.
//
// Filter deletes a rejected object from dst. The deletion has the rejected state as its last state,
// and the resource version moves on. In a Replace the object counts as not listed. A deletion
// always passes. So does a nil, which dst rejects.
//
// keep must depend on the object alone: a list may skip it for an object that dst holds with the
// listed content. If keep panics, Filter rejects the object under the key that dst derives by a
// method KeyOf(T) (Key, error), which all stores of this module have. If dst has no such method,
// the rejection has no key: dst finds its object by UID, and the resource version advances with the
// next Replace.
func Filter[T any](dst store.Store[T], keep func(T) bool) store.Store[T] {
	if keep == nil {
		panic("decorate: Filter needs a function")
	}
	f := &filter[T]{decorator: newDecorator[T]("Filter", dst), keep: keep, keyOf: keyFuncOf(dst), nilable: mayBeNil[T]()}
	f.self, f.pass = f, f.translate
	return f
}

type filter[T any] struct {
	decorator[T, T]
	keep    func(T) bool
	keyOf   store.KeyFunc[T] // nil if dst has no KeyOf
	nilable bool
}

var _ store.BatchStore[any] = (*filter[any])(nil)

func (f *filter[T]) KeyOf(object T) (store.Key, error) { return keyed(f.keyOf, object) }

// translate returns the write for dst.
func (f *filter[T]) translate(w store.Write[T]) store.Write[T] {
	if !hasObject(&w) || w.Type == store.Deletion || f.nilable && isNil(w.Object) {
		return w
	}
	kept, err := f.call(w.Object)
	switch {
	case err != nil:
		key, version, _ := identify(f.keyOf, &w)
		return store.Write[T]{Key: key, Version: version, Err: err}
	case !kept:
		w.Type, w.FinalStateKnown = store.Deletion, true
	}
	return w
}

// call runs the user's function.
func (f *filter[T]) call(object T) (kept bool, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("filter: %w", panicked.Error(value))
		}
	}()
	return f.keep(object), nil
}
