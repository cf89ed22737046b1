package store

import (
	"iter"

	"github.com/tidwall/btree"
)

// entry is one object as the cache holds it. Readers see entries without a
// lock, so everything they read in it is written once; values belongs to the
// writer.
type entry[T any] struct {
	key     Key
	object  T
	version Version

	// values holds, for each index of the cache, what its function returned
	// for this object. Guarded by Cache.writer.
	values []any
}

func lessEntry[T any](a, b *entry[T]) bool { return a.key.Compare(b.key) < 0 }

// Snapshot is one committed state of a cache. It never changes, and reading it
// takes no lock. Whoever keeps one keeps the objects that it holds from being
// freed.
type Snapshot[T any] struct {
	entries         *btree.BTreeG[*entry[T]]
	indexes         []any // the postings of each index, by Index.position
	resourceVersion string
	complete        bool
}

var _ Reader[any] = (*Snapshot[any])(nil)

// Get implements [Reader].
func (s *Snapshot[T]) Get(key Key) (T, bool) {
	e, ok := s.entries.Get(&entry[T]{key: key})
	if !ok {
		var none T
		return none, false
	}
	return e.object, true
}

// All implements [Reader].
func (s *Snapshot[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s.entries.Scan(func(e *entry[T]) bool { return yield(e.key, e.object) })
	}
}

// heldEntries iterates over the entries in the order of their keys.
func (s *Snapshot[T]) heldEntries() iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) { s.entries.Scan(yield) }
}

// Namespace implements [Reader].
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		// Keys are ordered by cluster first, so each cluster has its own run
		// of the namespace. Each round of the loop jumps to the next place
		// where a run can begin.
		seek, more := Key{Namespace: namespace}, true
		for more {
			more = false
			s.entries.Ascend(&entry[T]{key: seek}, func(e *entry[T]) bool {
				switch {
				case e.key.Cluster == seek.Cluster && e.key.Namespace == namespace:
					return yield(e.key, e.object)
				case e.key.Namespace > namespace:
					// The least string that is greater than this cluster.
					seek, more = Key{Cluster: e.key.Cluster + "\x00", Namespace: namespace}, true
				default:
					seek, more = Key{Cluster: e.key.Cluster, Namespace: namespace}, true
				}
				return false
			})
		}
	}
}

// Len implements [Reader].
func (s *Snapshot[T]) Len() int { return s.entries.Len() }

// ResourceVersion implements [Reader].
func (s *Snapshot[T]) ResourceVersion() string { return s.resourceVersion }

// Changes iterates over the state as if each object had just been added, in the
// order of keys: what a follower that starts from nothing has to do to get here.
func (s *Snapshot[T]) Changes() iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) {
		s.entries.Scan(func(e *entry[T]) bool { return yield(e.addition()) })
	}
}

// Complete reports whether the state comes from a Replace and what followed it,
// rather than from single changes alone: whether an object that is missing here
// was missing on the server.
func (s *Snapshot[T]) Complete() bool { return s.complete }
