package compact

import "github.com/kubereflector/kubereflector/store"

// telling is the cache, whose batches take keys and versions from the packed objects: the cache
// keeps no other strings than theirs.
type telling[T any] struct{ *store.Cache[*Packed[T]] }

// BeginBatch implements [store.BatchStore].
func (t *telling[T]) BeginBatch(self store.Store[*Packed[T]], replace bool) store.Batch[*Packed[T]] {
	if self != store.Store[*Packed[T]](t) {
		return nil
	}
	return untold[T]{t.Cache.BeginBatch(t.Cache, replace)}
}

// untold is a batch of the cache.
type untold[T any] struct{ store.Batch[*Packed[T]] }

func (u untold[T]) Write(w store.Write[*Packed[T]]) error {
	if w.Err == nil && (w.Type != store.Deletion || w.FinalStateKnown) {
		w.Key, w.Version = store.Key{}, store.Version{}
	}
	return u.Batch.Write(w)
}
