package store

import (
	"strings"
	"unsafe"
)

// entry is one object in the cache. Readers of a snapshot see its entries without a lock. So the
// key, the object and the version of such an entry do not change any more. Its hash, epoch and terms do, which
// belong to the writer: no snapshot reads them.
//
// The size matters, because a cache has one entry for each object. With a pointer it is 80 bytes, which
// is a size that Go allocates without a remainder. The entries of a namespace share their space, which
// also makes comparisons quick.
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
	// version is the version that a write gave, because the object has none; nil if the methods of
	// the object return the version.
	version *Version

	// hash is the hash of the bytes that the object was last read from: see Write.Hash. It changes
	// without a commit, so no snapshot reads it.
	hash uint64

	// stamp is that of the version: see [Version.stamp].
	stamp uint64

	// epoch is Cache.epoch when the entry was stored, or uncommitted. While it
	// equals Cache.epoch, no snapshot has the entry.
	epoch uint64

	// A walk reads the key and the object, which follows the header. So they are next to each other: in
	// three of four entries in one cache line of the CPU.
	space *space
	name  string
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

// table finds objects by key. It has one map for each namespace. That is quicker than one map of
// keys, which would hash three strings, and lets the entries of a namespace share their space.
type table[T any] struct {
	home     map[string]*nsMap[T] // by namespace, without a cluster; quicker than clusters
	clusters map[space]*nsMap[T]  // with a cluster
	len      int
}

// nsMap holds the objects of one namespace by name.
type nsMap[T any] struct {
	space   *space
	objects map[string]slot[T]
	gone    bool // the table dropped the map, because it was empty
}

// slot is the object and the entry under a key. Readers take the object from here, because each
// further pointer costs a cache miss of the CPU. The writer takes the entry, so that it updates an
// object that no snapshot has without a search of the tree.
type slot[T any] struct {
	object T
	entry  *entry[T]
}

// get returns the object of a key, and whether the table has one.
func (t *table[T]) get(key Key) (object T, ok bool) {
	if s := t.nsMap(key); s != nil {
		var held slot[T]
		held, ok = s.objects[key.Name]
		object = held.object
	}
	return object, ok
}

// find returns the nsMap and the entry of a key, or nil.
func (t *table[T]) find(key Key) (*nsMap[T], *entry[T]) {
	s := t.nsMap(key)
	if s == nil {
		return nil, nil
	}
	return s, s.objects[key.Name].entry
}

// entry returns the entry of a key, or nil.
func (t *table[T]) entry(key Key) *entry[T] {
	_, e := t.find(key)
	return e
}

// nsMap returns the nsMap of a key, or nil.
func (t *table[T]) nsMap(key Key) *nsMap[T] {
	if key.Cluster == "" {
		return t.home[key.Namespace]
	}
	return t.clusters[space{key.Cluster, key.Namespace}]
}

// add adds an nsMap for the keys of a space, with a map of its objects.
func (t *table[T]) add(of *space, objects map[string]slot[T]) *nsMap[T] {
	s := &nsMap[T]{space: of, objects: objects}
	if of.cluster == "" {
		t.home[of.namespace] = s
	} else {
		t.clusters[*of] = s
	}
	return s
}

// put stores the entry of a key in an nsMap. If the table has dropped the map, because it was
// empty, put uses the current map of the namespace, or adds one.
func (t *table[T]) put(s *nsMap[T], key Key, e *entry[T]) {
	if s.gone {
		if s = t.nsMap(key); s == nil {
			s = t.add(e.space, make(map[string]slot[T]))
		}
	}
	before := len(s.objects)
	s.objects[key.Name] = slot[T]{e.object, e}
	t.len += len(s.objects) - before
}

// remove removes the object of a key, if there is one.
func (t *table[T]) remove(key Key) {
	s := t.nsMap(key)
	if s == nil {
		return
	}
	before := len(s.objects)
	delete(s.objects, key.Name)
	t.len -= before - len(s.objects)
	if s.gone = len(s.objects) == 0; s.gone {
		delete(t.clusters, *s.space)
		if key.Cluster == "" {
			delete(t.home, key.Namespace)
		}
	}
}
