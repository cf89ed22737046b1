package compact

import (
	"iter"

	"github.com/kubereflector/kubereflector/store"
)

// Objects decodes what a walk over packed objects yields, such as one by an index or over a
// snapshot:
//
//	for key, pod := range compact.Objects(byNode.Get("node-1")) { ... }
//
// An object that is not decoded at the moment is decoded for this walk alone. It panics as
// [Packed.Object] does.
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

// By makes an index function for packed objects of one for objects, for [store.AddIndex]:
//
//	byNode, err := store.AddIndex(pods.Cache(), "node", compact.By(func(pod *corev1.Pod) []string { ... }))
//
// The values are found when the object is committed, and at that time a [Store] has it as
// it was written, so that nothing is decoded for it.
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
