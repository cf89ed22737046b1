package reflector

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// staging writes a list or a watch-list, as it comes, to a batch that replaces everything.
type staging[T Object] struct {
	to    store.Store[T]
	batch store.Batch[T] // nil before the first write
	over  error          // why the store ended the list; nil if it did not
	// size counts objects for reports only: those added, held or undecodable, minus the deleted.
	size     int
	nameless int     // how many could not be decoded and have no name
	newest   witness // of the objects
}

func (s *staging[T]) discard() {
	if s.batch != nil {
		s.batch.Discard()
	}
	*s = staging[T]{to: s.to}
}

// begin begins a batch if there is none.
func (s *staging[T]) begin() store.Batch[T] {
	if s.batch == nil {
		s.batch, _ = store.Begin(s.to, true)
	}
	return s.batch
}

// write gives a write to the batch.
func (s *staging[T]) write(w store.Write[T]) {
	if w.Err != nil && w.Key.Name == "" {
		if w.Version.UID == "" && s.nameless >= mostDetailed {
			return // the store could not keep anything for it
		}
		s.nameless++
	}
	if w.Type == store.Addition || w.Type == store.Modification {
		s.newest.list(w.Object)
	}
	switch w.Type {
	case store.Deletion:
		s.size = max(s.size-1, 0)
	case store.Modification:
	default:
		s.size++
	}
	if err := s.begin().Write(w); err != nil {
		s.over = err
	}
}

// add takes an object of a list.
func (s *staging[T]) add(object T) { s.write(store.Write[T]{Type: store.Addition, Object: object}) }

// hold takes objects that the store holds as they are.
func (s *staging[T]) hold(keys []store.Key) {
	for _, key := range keys {
		s.begin().Keep(key)
	}
	s.size += len(keys)
}

// keep takes a page of a list, except the items that came before its end.
func (s *staging[T]) keep(p page[T]) {
	for _, r := range p.lacking {
		s.take(&event[T]{kind: watch.Added, lacking: &r})
	}
	for i, object := range p.items {
		s.add(object)
		var none T
		p.items[i] = none // the batch may have made something smaller of it
	}
	s.hold(p.unchanged)
}

// take takes an event of a watch-list.
func (s *staging[T]) take(e *event[T]) {
	s.hold(e.unchanged)
	if e.lacking != nil {
		s.newest.clear() // it may be an older state of the same object
	}
	if w, ok := e.write(); ok {
		s.write(w)
	}
}

// commit makes the list the content of the store.
func (s *staging[T]) commit(version string) error { return s.begin().Commit(version) }
