package store

import (
	"strings"
	"unsafe"
)

// entry is one object in the cache. Readers of a snapshot see its entries without a lock. So an
// entry of a snapshot does not change any more, except for its terms, which belong to the writer.
//
// The size matters, because a cache has one entry for each object. With a pointer it is 72 bytes,
// for which Go takes 80. The entries of a namespace share their space, which also makes comparisons
// quick.
type entry[T any] struct {
	header  // first: see entryOf
	object  T
	termSet // guarded by Cache.writer
}

// entryOf returns the entry of a header in a tree; nil for nil. The trees of a Cache[T] hold only
// the headers of its entries, and a header has the address of its entry.
func entryOf[T any](h *header) *entry[T] { return (*entry[T])(unsafe.Pointer(h)) }

// It does not compile unless a header has the address of its entry.
var _ = [1]struct{}{}[unsafe.Offsetof(entry[any]{}.header)]

// section returns the terms of one index, by its position; none for a nil entry.
func (e *entry[T]) section(position int32) []*term {
	if e == nil {
		return nil
	}
	terms := e.terms()
	from := 0
	for from < len(terms) && terms[from].index < position {
		from++
	}
	to := from
	for to < len(terms) && terms[to].index == position {
		to++
	}
	return terms[from:to]
}

// held returns the known version, and whether there is an entry.
func (e *entry[T]) held() (Version, bool) {
	if e == nil {
		return Version{}, false
	}
	return e.known(), true
}

// setVersion sets the version that a write gave, if it gave one.
func (e *entry[T]) setVersion(version Version) {
	if version != (Version{}) {
		given := version // so that a version is on the heap only here
		e.version = &given
	}
}

// known returns the known version of the object.
func (e *entry[T]) known() Version {
	if e.version != nil {
		return *e.version
	}
	return VersionOf(e.object)
}

// header is the part of an entry that does not depend on the type of the object. The trees hold
// headers.
type header struct {
	space *space
	name  string

	// version is the version that a write gave, because the object has none; nil if the methods of
	// the object return the version.
	version *Version

	// hash is the hash of the bytes that the object was last read from: see Write.Hash. It changes
	// without a commit, so no snapshot reads it.
	hash uint64

	// epoch is Cache.epoch when the entry was stored, or uncommitted. While it
	// equals Cache.epoch, no snapshot has the entry.
	epoch uint64
}

func (h *header) key() Key {
	return Key{Cluster: h.space.cluster, Namespace: h.space.namespace, Name: h.name}
}

// space is the part of a key that the objects of a namespace share.
type space struct{ cluster, namespace string }

func (s *space) compare(other *space) int {
	if c := strings.Compare(s.cluster, other.cluster); c != 0 {
		return c
	}
	return strings.Compare(s.namespace, other.namespace)
}

// lessEntry orders entries by key.
func lessEntry(a, b *header) bool {
	if a.space != b.space {
		if c := a.space.compare(b.space); c != 0 {
			return c < 0
		}
	}
	return a.name < b.name
}

// pivot returns a header to search for a key.
func pivot(key Key) *header {
	return &header{space: &space{key.Cluster, key.Namespace}, name: key.Name}
}
