package compact

import "github.com/kubereflector/kubereflector/store"

// stage is a list of which each object is packed as it comes.
type stage[T any] struct {
	store.Stage[T]
	of     *Store[T]
	series series[T]
}

// Stage implements [store.Stager].
func (s *Store[T]) Stage(of store.Store[T]) store.Stage[T] {
	if of != store.Store[T](s) {
		return nil
	}
	return &stage[T]{Stage: store.StageOf[T](s.pack), of: s}
}

// Put keeps the object decoded until the indexes of the cache have its values.
func (s *stage[T]) Put(object T, told store.Identity) error {
	defer s.of.packer.recent.writeOf(&s.series)()
	return s.Stage.Put(object, told)
}
