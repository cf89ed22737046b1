package store

// step is a commit that is about to be made.
type step[T any] struct {
	origin  Origin
	initial bool
	edits   []edit[T]

	// resourceVersion is where the commit leads to; empty means that it is not
	// known, unless replaced says that it is what the list had.
	resourceVersion string
	replaced        bool
}

// edit is what a commit does under one key: old, if any, makes room for new, if
// any. final is the state in which old was deleted, where that was reported.
type edit[T any] struct {
	old, new *entry[T]
	final    *entry[T]
}

// prepare does everything that needs code of the user: it derives the key and
// the index values of an object. The entry is never nil, and carries what is
// known of the object even if err is not nil.
func (c *Cache[T]) prepare(object T) (*entry[T], error) {
	e := &entry[T]{object: object}
	var err error
	if e.key, e.version, err = c.identify(object); err != nil {
		return e, err
	}
	if len(c.indexes) > 0 {
		e.values = make([]any, len(c.indexes))
	}
	for i, x := range c.indexes {
		if e.values[i], err = x.valuesOf(e.key, object); err != nil {
			return e, err
		}
	}
	return e, nil
}

// identify derives the key and the version of an object, and what can be had of
// the version if there is no key.
func (c *Cache[T]) identify(object T) (key Key, version Version, err error) {
	defer func() {
		// A nil object that has no key panics when asked for its version; the
		// first error says more than the panic.
		if value := recover(); value != nil && err == nil {
			key, err = Key{}, recovered(value)
		}
	}()
	if c.keyOf == nil {
		return Key{}, Version{}, ErrNoKeyFunc
	}
	key, err = c.keyOf(object)
	if err == nil && key == (Key{}) {
		err = ErrNoName
	}
	if err != nil {
		key = Key{}
	}
	version = versionOf(object)
	return key, version, err
}

// commit makes a step: the new state becomes visible, then the followers hear
// of it. The caller holds writer.
func (c *Cache[T]) commit(s step[T]) {
	version := c.resourceVersion
	if complete := c.complete || s.replaced; complete && (s.resourceVersion != "" || s.replaced) && !c.lacking.any() {
		version = s.resourceVersion
	}

	c.mu.Lock()
	c.published.Store(nil)
	for _, e := range s.edits {
		c.applyLocked(e)
	}
	c.resourceVersion = version
	c.complete = c.complete || s.replaced
	c.mu.Unlock()

	if len(c.followers) == 0 {
		return
	}
	commit := &Commit[T]{
		Origin:          s.origin,
		Initial:         s.initial,
		ResourceVersion: version,
		Changes:         changes(s.edits),
	}
	for _, f := range c.followers {
		f.follower.Commit(commit)
	}
}

func (c *Cache[T]) applyLocked(e edit[T]) {
	if e.new != nil {
		c.objects[e.new.key] = e.new
		c.entries.Set(e.new)
	} else {
		delete(c.objects, e.old.key)
		c.entries.Delete(e.old)
	}
	for i, x := range c.indexes {
		x.move(i, e.old, e.new)
	}
}

// changes says what edits mean to a follower.
func changes[T any](edits []edit[T]) []Change[T] {
	all := make([]Change[T], 0, len(edits))
	for _, e := range edits {
		switch {
		case e.new == nil:
			deletion := e.old.deletion()
			// The final state of another object says nothing about this one.
			if e.final != nil && !e.old.version.recreated(e.final.version) {
				deletion.Object, deletion.FinalStateKnown = e.final.object, true
				deletion.Version = e.final.version
			}
			all = append(all, deletion)
		case e.old == nil:
			all = append(all, e.new.addition())
		case e.old.version.recreated(e.new.version):
			// The deletion in between went unseen. Both are told, so that
			// nobody mistakes the new object for a later state of the old one
			// (kubernetes/kubernetes#133565).
			all = append(all, e.old.deletion(), e.new.addition())
		default:
			modification := e.new.addition()
			modification.Type, modification.Prior = Modification, e.old.object
			all = append(all, modification)
		}
	}
	return all
}

func (e *entry[T]) addition() Change[T] {
	return Change[T]{Type: Addition, Key: e.key, Object: e.object, Version: e.version}
}

func (e *entry[T]) deletion() Change[T] {
	return Change[T]{Type: Deletion, Key: e.key, Prior: e.object, Object: e.object, Version: e.version}
}
