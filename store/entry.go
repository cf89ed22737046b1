package store

import (
	"slices"
	"strings"
)

// entry is one object as the cache holds it. Readers of a snapshot see its entries
// without a lock, so an entry that is in one does not change any more, but for its
// terms, which belong to the writer.
//
// A cache has as many of them as objects, so its size counts: 80 bytes for a
// pointer. Entries of one namespace share their space, which also makes
// comparing them quick.
type entry[T any] struct {
	space  *space
	name   string
	object T

	// version is what is known of the version of an object that does not say
	// so itself; nil for the others.
	version *Version

	// epoch is that of the cache when the entry came into its trees: as long as
	// it has not ended, no snapshot has the entry.
	epoch uint64

	// few or more are the values that the indexes found in the object, ordered
	// by index and then by term: see terms. Guarded by Cache.writer.
	few  [3]*term
	more *[]*term
}

// terms returns the terms of the entry. Writing to the slice writes to the entry.
func (e *entry[T]) terms() []*term {
	if e.more != nil {
		return *e.more
	}
	n := 0
	for n < len(e.few) && e.few[n] != nil {
		n++
	}
	return e.few[:n]
}

// setTerms makes a copy of the given terms those of the entry.
func (e *entry[T]) setTerms(terms []*term) {
	e.few, e.more = [len(e.few)]*term{}, nil
	if len(terms) > len(e.few) {
		more := slices.Clone(terms)
		e.more = &more
		return
	}
	copy(e.few[:], terms)
}

// swap exchanges the contents of two entries of one key.
func (e *entry[T]) swap(other *entry[T]) {
	e.name, other.name = other.name, e.name
	e.object, other.object = other.object, e.object
	e.version, other.version = other.version, e.version
	e.few, other.few = other.few, e.few
	e.more, other.more = other.more, e.more
}

// space is the part of a key that the objects of a namespace share.
type space struct{ cluster, namespace string }

func (s *space) compare(other *space) int {
	if c := strings.Compare(s.cluster, other.cluster); c != 0 {
		return c
	}
	return strings.Compare(s.namespace, other.namespace)
}

func (e *entry[T]) key() Key {
	return Key{Cluster: e.space.cluster, Namespace: e.space.namespace, Name: e.name}
}

// known returns what is known of the version of the object.
func (e *entry[T]) known() Version {
	if e.version != nil {
		return *e.version
	}
	return versionOf(e.object)
}

// lessEntry orders entries by key.
func lessEntry[T any](a, b *entry[T]) bool {
	if a.space != b.space {
		if c := a.space.compare(b.space); c != 0 {
			return c < 0
		}
	}
	return a.name < b.name
}

// pivot returns an entry that stands for a key in searches.
func pivot[T any](key Key) *entry[T] {
	return &entry[T]{space: &space{key.Cluster, key.Namespace}, name: key.Name}
}
