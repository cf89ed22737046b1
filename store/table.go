package store

// table finds objects by key. A map for each namespace is quicker than one map
// of keys, whose three strings would have to be hashed, and lets the entries of
// a namespace share their space. Objects lie in it themselves, because each
// pointer on the way to them is a miss of the CPU's caches.
type table[T any] struct {
	home     map[string]*shelf[T]            // by namespace, without a cluster
	clusters map[string]map[string]*shelf[T] // by cluster, then namespace
	len      int
}

// shelf holds the objects of one namespace by name.
type shelf[T any] struct {
	space   *space
	objects map[string]T
}

func newTable[T any]() table[T] {
	return table[T]{home: make(map[string]*shelf[T])}
}

// namespaces returns the shelves of a cluster, nil for an unknown one.
func (t *table[T]) namespaces(cluster string) map[string]*shelf[T] {
	if cluster == "" {
		return t.home
	}
	return t.clusters[cluster]
}

// get returns the object of a key, and whether there is one.
func (t *table[T]) get(key Key) (object T, ok bool) {
	if s := t.shelf(key); s != nil {
		object, ok = s.objects[key.Name]
	}
	return object, ok
}

// shelf returns the shelf of a key, or nil.
func (t *table[T]) shelf(key Key) *shelf[T] { return t.namespaces(key.Cluster)[key.Namespace] }

// add adds an empty shelf for the keys of a space.
func (t *table[T]) add(of *space) *shelf[T] {
	namespaces := t.namespaces(of.cluster)
	if namespaces == nil {
		if t.clusters == nil {
			t.clusters = make(map[string]map[string]*shelf[T])
		}
		namespaces = make(map[string]*shelf[T])
		t.clusters[of.cluster] = namespaces
	}
	s := &shelf[T]{space: of, objects: make(map[string]T)}
	namespaces[of.namespace] = s
	return s
}

// put files the object of an entry.
func (t *table[T]) put(key Key, e *entry[T]) {
	s := t.shelf(key)
	if s == nil {
		s = t.add(e.space)
	}
	before := len(s.objects)
	s.objects[key.Name] = e.object
	t.len += len(s.objects) - before
}

// remove takes the object of a key out, if there is one.
func (t *table[T]) remove(key Key) {
	s := t.shelf(key)
	if s == nil {
		return
	}
	before := len(s.objects)
	delete(s.objects, key.Name)
	t.len -= before - len(s.objects)
	if len(s.objects) > 0 {
		return
	}
	namespaces := t.namespaces(key.Cluster)
	delete(namespaces, key.Namespace)
	if len(namespaces) == 0 && key.Cluster != "" {
		delete(t.clusters, key.Cluster)
	}
}
