package compact

import "github.com/kubereflector/kubereflector/store"

// telling is the cache with packed objects that are not told their keys and versions,
// because they say them: so the cache keeps no other strings than theirs.
type telling[T any] struct{ *store.Cache[*Packed[T]] }

// Apply implements [store.BatchStore].
func (t *telling[T]) Apply(batch *store.Batch[*Packed[T]]) error {
	var told store.Batch[*Packed[T]]
	for w := range batch.All() {
		switch w.Type {
		case store.WriteAdd, store.WriteUpdate, store.WriteDelete:
			w.Key, w.Version = store.Key{}, store.Version{}
		}
		told.Append(w)
	}
	return t.Cache.Apply(&told)
}

// ReplaceAll implements [store.BatchStore].
func (t *telling[T]) ReplaceAll(listing store.Listing[*Packed[T]]) error {
	listing.Identities = nil
	return t.Cache.ReplaceAll(listing)
}

// Itself implements [store.BatchStore].
func (t *telling[T]) Itself() store.Store[*Packed[T]] { return t }

// Stage implements [store.Stager].
func (t *telling[T]) Stage(of store.Store[*Packed[T]]) store.Stage[*Packed[T]] {
	if of != store.Store[*Packed[T]](t) {
		return nil
	}
	return untold[T]{t.Cache.Stage(t.Cache)}
}

// untold is the cache's stage, which is not told either.
type untold[T any] struct{ store.Stage[*Packed[T]] }

func (u untold[T]) Put(packed *Packed[T], _ store.Identity) error {
	return u.Stage.Put(packed, store.Identity{})
}
