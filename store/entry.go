package store

import "strings"

// entry is one object as the cache holds it. Readers see entries without a
// lock, so what they read in it is written once; terms belongs to the writer.
//
// A cache has as many of them as objects, so its size counts: 64 bytes for a
// pointer. Entries of one namespace share their space, which also makes
// comparing them quick.
type entry[T any] struct {
	space  *space
	name   string
	object T

	// version is what is known of the version of an object that does not say
	// so itself; nil for the others.
	version *Version

	// terms are the values that the indexes found in the object, ordered by
	// index and then by term. Guarded by Cache.writer.
	terms []*term
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
