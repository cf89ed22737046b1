package store

// table finds entries by key. A map for each namespace is quicker than one map
// of keys, whose three strings would have to be hashed, and lets the entries of
// a namespace share their space.
type table[T any] struct {
	home     map[string]*shelf[T]            // by namespace, without a cluster
	clusters map[string]map[string]*shelf[T] // by cluster, then namespace
	len      int
}

// shelf holds the entries of one namespace by name.
type shelf[T any] struct {
	space   *space
	entries map[string]*entry[T]
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

// get returns the entry of a key, or nil.
func (t *table[T]) get(key Key) *entry[T] {
	s := t.namespaces(key.Cluster)[key.Namespace]
	if s == nil {
		return nil
	}
	return s.entries[key.Name]
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
	s := &shelf[T]{space: &space{key.Cluster, key.Namespace}, entries: make(map[string]*entry[T])}
	namespaces[key.Namespace] = s
	return s
}

// put files an entry under its key, gives it its space and returns the entry
// that it takes the place of, or nil.
func (t *table[T]) put(key Key, e *entry[T]) (old *entry[T]) {
	s := t.shelfOf(key)
	e.space = s.space
	old = s.entries[e.name]
	s.entries[e.name] = e
	if old == nil {
		t.len++
	}
	return old
}

// remove takes the entry of a key out and returns it, or nil.
func (t *table[T]) remove(key Key) *entry[T] {
	namespaces := t.namespaces(key.Cluster)
	s := namespaces[key.Namespace]
	if s == nil {
		return nil
	}
	e := s.entries[key.Name]
	if e == nil {
		return nil
	}
	t.len--
	delete(s.entries, key.Name)
	if len(s.entries) == 0 {
		delete(namespaces, key.Namespace)
		if len(namespaces) == 0 && key.Cluster != "" {
			delete(t.clusters, key.Cluster)
		}
	}
	return e
}
