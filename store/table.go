package store

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

func newTable[T any]() table[T] {
	return table[T]{home: make(map[string]*nsMap[T]), clusters: make(map[space]*nsMap[T])}
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
