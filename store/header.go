package store

import "strings"

// header is the part of an entry that does not depend on the type of the object. It is what the
// trees hold.
type header struct {
	space *space
	name  string

	// version is what is known of the version of an object that does not say
	// so itself; nil for the others.
	version *Version

	// epoch is that of the cache when the entry came into its trees: as long as
	// it has not ended, no snapshot has the entry.
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

// pivot returns what stands for a key in searches.
func pivot(key Key) *header {
	return &header{space: &space{key.Cluster, key.Namespace}, name: key.Name}
}
