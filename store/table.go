package store

// table finds objects by key. It has one map for each namespace. That is quicker than one map of
// keys, which would hash three strings, and lets the entries of a namespace share their space.
type table[T any] struct {
	home     map[string]*nsMap[T]            // by namespace, without a cluster
	clusters map[string]map[string]*nsMap[T] // by cluster, then namespace
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

func newTable[T any]() table[T] {
	return table[T]{home: make(map[string]*nsMap[T])}
}

// namespaces returns the nsMaps of a cluster, nil for an unknown one.
func (t *table[T]) namespaces(cluster string) map[string]*nsMap[T] {
	if cluster == "" {
		return t.home
	}
	return t.clusters[cluster]
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
func (t *table[T]) nsMap(key Key) *nsMap[T] { return t.namespaces(key.Cluster)[key.Namespace] }

// add adds an empty nsMap for the keys of a space.
func (t *table[T]) add(of *space) *nsMap[T] {
	namespaces := t.namespaces(of.cluster)
	if namespaces == nil {
		if t.clusters == nil {
			t.clusters = make(map[string]map[string]*nsMap[T])
		}
		namespaces = make(map[string]*nsMap[T])
		t.clusters[of.cluster] = namespaces
	}
	s := &nsMap[T]{space: of, objects: make(map[string]slot[T])}
	namespaces[of.namespace] = s
	return s
}

// put stores an entry in an nsMap. If the table has dropped the map, because it was empty, put uses
// the current map of the namespace, or adds one.
func (t *table[T]) put(s *nsMap[T], name string, e *entry[T]) {
	if s.gone {
		if s = t.namespaces(e.space.cluster)[e.space.namespace]; s == nil {
			s = t.add(e.space)
		}
	}
	before := len(s.objects)
	s.objects[name] = slot[T]{e.object, e}
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
	if len(s.objects) > 0 {
		return
	}
	s.gone = true
	namespaces := t.namespaces(key.Cluster)
	delete(namespaces, key.Namespace)
	if len(namespaces) == 0 && key.Cluster != "" {
		delete(t.clusters, key.Cluster)
	}
}
