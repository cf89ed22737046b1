package compact

import (
	"iter"

	"github.com/kubereflector/kubereflector/store"
)

// Objects decodes the objects of an iteration over packed objects, such as an iteration of an index
// or of a snapshot:
//
//	for key, pod := range compact.Objects(byNode.Get("node-1")) { ... }
//
// It does not keep the objects decoded. It panics as [Packed.Object] does.
func Objects[T any](walk iter.Seq2[store.Key, *Packed[T]]) iter.Seq2[store.Key, T] {
	return func(yield func(store.Key, T) bool) {
		for key, packed := range walk {
			object, err := packed.object(false)
			if err != nil {
				panic(err)
			}
			if !yield(key, object) {
				return
			}
		}
	}
}

// By turns an index function of objects into an index function of packed objects, for
// [store.AddIndex]:
//
//	byNode, err := store.AddIndex(pods.Cache(), "node", compact.By(func(pod *corev1.Pod) []string { ... }))
//
// The cache runs the function when an object is written. A [Store] still has the written object
// then, and decodes nothing.
func By[T, I any](fn func(T) []I) func(*Packed[T]) []I {
	if fn == nil {
		return nil
	}
	return func(packed *Packed[T]) []I {
		object, err := packed.object(false)
		if err != nil {
			panic(err)
		}
		return fn(object)
	}
}
