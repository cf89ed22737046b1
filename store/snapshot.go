package store

import (
	"iter"
	"runtime"
)

// Snapshot is one committed state of a cache. It never changes. Only Get takes a lock, for one lookup
// in a map.
//
// A snapshot keeps its objects in memory, and the tree nodes that later commits replaced: at worst
// a second copy of the cache. A snapshot that is no longer referenced costs nothing.
type Snapshot[T any] struct {
	of              *Cache[T]
	entries         entryTree
	indexes         []postingTree // by postings.position
	resourceVersion string
	synced          bool
	generation      uint64
}

var _ Reader[any] = (*Snapshot[any])(nil)

// Get implements [Reader].
func (s *Snapshot[T]) Get(key Key) (T, bool) {
	// The cache's maps are quicker than the tree. Their result is valid if this snapshot is the
	// current state before and after the lookup.
	if s.of.current.Load() == s {
		object, ok := s.of.Get(key)
		if s.of.current.Load() == s {
			return object, ok
		}
	}
	return s.search(key)
}

func (s *Snapshot[T]) search(key Key) (object T, ok bool) {
	if h := s.entries.get(pivot(key), nil); h != nil {
		object, ok = entryOf[T](h).object, true
	}
	return object, ok
}

// All implements [Reader].
func (s *Snapshot[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		// Whole nodes save one call for each object.
		s.entries.walk(func(entries []*header) bool { return yieldAll(entries, yield) })
	}
}

// yieldAll passes entries to a loop's body, and reports whether the loop goes on. It reads all
// entries before the first call of the body, so that their cache misses overlap. An iteration takes
// half the time.
func yieldAll[T any](entries []*header, yield func(Key, T) bool) (more bool) {
	touched := 0
	for _, h := range entries {
		touched += len(h.name)
	}
	runtime.KeepAlive(touched)
	for _, h := range entries {
		if !yield(h.key(), entryOf[T](h).object) {
			return false
		}
	}
	return true
}

// Namespace implements [Reader].
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		// Keys are ordered by cluster first, so the objects of the namespace are contiguous only
		// within one cluster. Each round of the loop seeks the next possible start of such a range.
		seek, more := Key{Namespace: namespace}, true
		for more {
			more = false
			s.entries.ascend(pivot(seek), func(h *header) bool {
				switch {
				case h.space.cluster == seek.Cluster && h.space.namespace == namespace:
					return yield(h.key(), entryOf[T](h).object)
				case h.space.namespace > namespace:
					// The least string that is greater than this cluster.
					seek, more = Key{Cluster: h.space.cluster + "\x00", Namespace: namespace}, true
				default:
					seek, more = Key{Cluster: h.space.cluster, Namespace: namespace}, true
				}
				return false
			})
		}
	}
}

// Len implements [Reader].
func (s *Snapshot[T]) Len() int { return s.entries.len() }

// ResourceVersion implements [Reader].
func (s *Snapshot[T]) ResourceVersion() string { return s.resourceVersion }

// Changes iterates over the objects as Additions, in the order of keys. Applied to an empty cache,
// these changes lead to this state.
func (s *Snapshot[T]) Changes() iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) {
		s.entries.scan(func(h *header) bool { return yield(entryOf[T](h).addition()) })
	}
}

// Synced reports whether the cache had its first Replace. If so, an object that is missing here was
// missing on the server, unless the cache rejected it: see [View.Rejected]. In a cache with partitions, all
// must have had their first Replace.
func (s *Snapshot[T]) Synced() bool { return s.synced }
