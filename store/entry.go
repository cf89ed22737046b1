package store

import "unsafe"

// entry is one object as the cache holds it. Readers of a snapshot see its entries
// without a lock, so an entry that is in one does not change any more, but for its
// terms, which belong to the writer.
//
// A cache has as many of them as objects, so its size counts: 80 bytes for a
// pointer. Entries of one namespace share their space, which also makes
// comparing them quick.
type entry[T any] struct {
	header  // first: see entryOf
	object  T
	termSet // guarded by Cache.writer
}

// entryOf returns the entry whose header is in a tree; nil of nil. The trees of a cache of T have
// no headers but those of its entries, each of which is where its entry is.
func entryOf[T any](h *header) *entry[T] { return (*entry[T])(unsafe.Pointer(h)) }

// It does not compile unless the header of an entry is where the entry is.
var _ = [1]struct{}{}[unsafe.Offsetof(entry[any]{}.header)]

// section returns the terms of the index of a position; none of nil.
func (e *entry[T]) section(position int) []*term {
	if e == nil {
		return nil
	}
	return e.termSet.section(position)
}

// swap exchanges the contents of two entries of one key.
func (e *entry[T]) swap(other *entry[T]) {
	e.name, other.name = other.name, e.name
	e.object, other.object = other.object, e.object
	e.version, other.version = other.version, e.version
	e.termSet, other.termSet = other.termSet, e.termSet
}

// held returns what is known of the version, and whether there is an entry.
func (e *entry[T]) held() (Version, bool) {
	if e == nil {
		return Version{}, false
	}
	return e.known(), true
}

// known returns what is known of the version of the object.
func (e *entry[T]) known() Version {
	if e.version != nil {
		return *e.version
	}
	return versionOf(e.object)
}
