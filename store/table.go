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
	if s := t.namespaces(key.Cluster)[key.Namespace]; s != nil {
		object, ok = s.objects[key.Name]
	}
	return object, ok
}

// shelfOf returns the shelf for a key, and makes it if there is none.
func (t *table[T]) shelfOf(key Key) *shelf[T] {
	namespaces := t.namespaces(key.Cluster)
	if s := namespaces[key.Namespace]; s != nil {
		return s
	}
	if namespaces == nil {
		if t.clusters == nil {
			t.clusters = make(map[string]map[string]*shelf[T])
		}
		namespaces = make(map[string]*shelf[T])
		t.clusters[key.Cluster] = namespaces
	}
	s := &shelf[T]{space: &space{key.Cluster, key.Namespace}, objects: make(map[string]T)}
	namespaces[key.Namespace] = s
	return s
}

// put files an object under its key and returns the space of the key.
func (t *table[T]) put(key Key, object T) *space {
	s := t.shelfOf(key)
	before := len(s.objects)
	s.objects[key.Name] = object
	t.len += len(s.objects) - before
	return s.space
}

// remove takes the object of a key out and reports whether there was one.
func (t *table[T]) remove(key Key) bool {
	namespaces := t.namespaces(key.Cluster)
	s := namespaces[key.Namespace]
	if s == nil {
		return false
	}
	before := len(s.objects)
	delete(s.objects, key.Name)
	if len(s.objects) == before {
		return false
	}
	t.len--
	if len(s.objects) == 0 {
		delete(namespaces, key.Namespace)
		if len(namespaces) == 0 && key.Cluster != "" {
			delete(t.clusters, key.Cluster)
		}
	}
	return true
}
