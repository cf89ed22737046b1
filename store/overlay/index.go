package overlay

import (
	"cmp"
	"iter"
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Index finds the objects of an overlay by a value that a function derives from them.
// Create one with [AddIndex]. All methods are safe for concurrent use.
type Index[I comparable, T Object] struct {
	of     *Overlay[T]
	index  *store.Index[I, T]
	values func(T) []I
}

// AddIndex adds an index to the cache of an overlay: see [store.AddIndex] for its errors. The
// [Index] that it returns also shows pending writes.
func AddIndex[T Object, I cmp.Ordered](to *Overlay[T], name string, fn func(T) []I) (*Index[I, T], error) {
	index, err := store.AddIndex(to.of, name, fn)
	if err != nil {
		return nil, err
	}
	return &Index[I, T]{of: to, index: index, values: fn}, nil
}

// Get iterates over the objects that have a value, in the order of their keys.
func (x *Index[I, T]) Get(value I) iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		state, writes := x.of.pin()
		merge(x.index.On(state).Get(value), writes, func(w *write[T]) bool { return x.has(w, value) }, yield)
	}
}

// has reports whether a written object has a value. It has none if the function panics: the cache
// will reject the object.
func (x *Index[I, T]) has(w *write[T], value I) (has bool) {
	defer func() {
		if recover() != nil {
			has = false
		}
	}()
	return slices.Contains(x.values(w.object), value)
}
