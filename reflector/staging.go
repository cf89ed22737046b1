package reflector

import (
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"k8s.io/apimachinery/pkg/watch"
)

// staging writes a list or a watch-list, while it arrives, to a batch that replaces the store's
// content.
type staging[T Object] struct {
	to    store.Store[T]
	batch store.Batch[T] // nil before the first write
	over  error          // the error with which the store ended the list
	// size counts objects for reports only: those added, held or undecodable, minus the deleted.
	size     int
	nameless int     // number of undecodable objects without a name
	newest   witness // of the objects
}

func (s *staging[T]) discard() {
	if s.batch != nil {
		s.batch.Discard()
	}
	*s = staging[T]{to: s.to}
}

// begin returns the batch, and creates it if necessary.
func (s *staging[T]) begin() store.Batch[T] {
	if s.batch == nil {
		s.batch, _ = decorate.Begin(s.to, true)
	}
	return s.batch
}

// write adds a write to the batch.
func (s *staging[T]) write(w store.Write[T]) {
	if w.Err != nil && w.Key.Name == "" {
		if w.Version.UID == "" && s.nameless >= stream.MaxDetailed {
			return // the store has no key for the object
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

// add adds an object of a list.
func (s *staging[T]) add(object T, hash uint64) {
	s.write(store.Write[T]{Type: store.Addition, Object: object, Hash: hash})
}

// hold keeps objects that the store has with the same content.
func (s *staging[T]) hold(keys []store.Key) {
	for _, key := range keys {
		s.begin().Keep(key)
	}
	s.size += len(keys)
}

// keep adds a page of a list. Items that were delivered earlier are no longer in the page.
func (s *staging[T]) keep(p source.Page[T]) {
	for _, r := range p.Rejections {
		s.take(&source.Event[T]{Type: watch.Added, Rejection: &r})
	}
	for i, object := range p.Items {
		s.add(object, p.Hash(i))
		var none T
		p.Items[i] = none // frees the object if the batch has a smaller copy
	}
	s.hold(p.Held)
}

// take adds an event of a watch-list.
func (s *staging[T]) take(e *source.Event[T]) {
	s.hold(e.Held)
	if e.Rejection != nil || e.Type == watch.Deleted {
		s.newest = witness{} // the event may be about the same object
	}
	if w, ok := writeOf(e); ok {
		s.write(w)
	}
}

// commit makes the list the content of the store.
func (s *staging[T]) commit(version string) error { return s.begin().Commit(version) }
