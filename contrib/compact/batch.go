package compact

import "github.com/kubereflector/kubereflector/store"

// BeginBatch implements [store.BatchStore].
func (s *Store[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](s) {
		return nil
	}
	into := s.pack.BeginBatch(s.pack, replace)
	if replace {
		return &listBatch[T]{Batch: into, of: s}
	}
	return &watchBatch[T]{Batch: into, of: s}
}

// listBatch packs each object as it comes. The object stays decoded during Write, because the cache
// runs the index functions there.
type listBatch[T any] struct {
	store.Batch[T]
	of     *Store[T]
	series series[T]
}

func (b *listBatch[T]) Write(w store.Write[T]) error {
	defer b.of.packer.recent.writeOf(&b.series)()
	return b.Batch.Write(w)
}

// watchBatch packs its objects in Commit. The objects stay decoded during Commit, because the cache
// runs the index functions there.
type watchBatch[T any] struct {
	store.Batch[T]
	of     *Store[T]
	writes []store.Write[T]
}

func (b *watchBatch[T]) Write(w store.Write[T]) error {
	b.writes = append(b.writes, w)
	return nil
}

func (b *watchBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	defer b.of.packer.recent.write()()
	for i := range b.writes {
		if err := b.Batch.Write(b.writes[i]); err != nil {
			return err
		}
	}
	return b.Batch.Commit(resourceVersion)
}

func (b *watchBatch[T]) Discard() {
	b.writes = nil
	b.Batch.Discard()
}
