package store

import "errors"

// txn is a commit that the cache has not made yet.
type txn[T any] struct {
	origin     Origin
	initial    bool
	outOfScope bool // the deleted objects still exist on the server
	mutations  []mutation[T]

	// resourceVersion is the partition's version after the commit. seen is the version up to which
	// the partition has received every change, rejected objects included.
	resourceVersion string
	seen            string
	replaced        bool
	// lowered is true if the list has a lower version than the partition, as after a restore of the
	// API server from a backup. The commit then takes the version of the list, or none if the list
	// has a rejected object.
	lowered bool
}

// mutation is the change that a commit makes under one key. It stores new, or removes the current
// entry if new is nil. final is the last state of a deleted object, if the server reported it.
// mutateTrees sets old to the entry that it replaced or removed. A mutation without old and new
// changed nothing.
type mutation[T any] struct {
	key             Key
	old, new, final *entry[T]
	oldIsFree       bool      // neither a tree nor a snapshot has the entry old
	nsMap           *nsMap[T] // of new
	outOfScope      bool      // the removed object still exists on the server
}

// scratch is memory that the next commit reuses. Guarded by Cache.writer.
type scratch[T any] struct {
	mutations []mutation[T]
	terms     []*term
	commit    Commit[T]
	entries   []*entry[T] // zero values
}

const (
	// maxScratch is the largest capacity of a slice that the cache keeps for the next commit.
	maxScratch = 1024
	// maxFreeEntries is how many free entries of about 64 bytes the cache keeps.
	maxFreeEntries = 64
)

// identify derives the key and the version of an object. With an error, it returns the parts that
// it could derive.
func identify[T any](keyOf KeyFunc[T], versioned bool, object T) (key Key, version Version, err error) {
	defer func() {
		// The methods of a nil object without a key panic when VersionOf calls them. The first
		// error says more than the panic.
		if value := recover(); value != nil && err == nil {
			key, version, err = Key{}, knownVersion(object), recovered(value)
		}
	}()
	if key, err = keyOf(object); err == nil && key == (Key{}) {
		err = errNoName
	}
	if err != nil {
		key = Key{}
	}
	if versioned {
		version = VersionOf(object)
	}
	return key, version, err
}

// identify derives the key that an object has in the cache, and its version.
func (p *Partition[T]) identify(object T) (Key, Version, error) {
	key, version, err := identify(p.of.keyOf, p.of.versioned, object)
	if err == nil {
		key, err = p.normalize(key)
	}
	return key, version, err
}

// recognise is identify for a write, which may give the key and the version of its object.
func (p *Partition[T]) recognise(w *Write[T]) (Key, Version, error) {
	key, version, err := p.identify(w.Object)
	if w.Key == (Key{}) && w.Version == (Version{}) {
		return key, version, err
	}
	override, _ := p.normalize(w.Key)
	return applyOverride(override, w.Version, key, version, err)
}

// apply makes writes of a watch in one commit. The resource version is as in [Batch].
func (p *Partition[T]) apply(writes []Write[T], resourceVersion string) error {
	c := p.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if p.dropped {
		return p.scopeError(errDropped)
	}
	s := txn[T]{origin: Watch, resourceVersion: p.resourceVersion, mutations: c.scratch.mutations[:0]}
	var rejections []Rejection
	c.budget.begin()
	for i := range writes {
		if r := p.stage(&s, &writes[i]); r != nil {
			rejections = append(rejections, *r)
		}
	}
	p.advance(&s, Key{}, resourceVersion)
	if len(s.mutations) > 0 || s.resourceVersion != p.resourceVersion || s.seen != "" && s.seen != p.resourceVersion {
		c.commit(p, &s)
	}
	return rejectedError(rejections)
}

// stage adds a write to a txn, or returns a rejection.
func (p *Partition[T]) stage(s *txn[T], w *Write[T]) *Rejection {
	switch {
	case w.Err != nil:
		r := w.rejection()
		r.Key, _ = p.normalize(r.Key)
		if ownerErr := p.checkOwner(r.Key, r.Version); ownerErr != nil {
			r.Err = errors.Join(ownerErr, r.Err)
		}
		p.reject(r.Key, r.Version)
		return &r
	case w.Type == Addition || w.Type == Modification:
		key, version, err := p.recognise(w)
		var e *entry[T]
		if err == nil {
			err = p.checkOwner(key, version)
		}
		if err == nil && p.outdated(key, version) {
			p.advance(s, key, version.ResourceVersion)
			return nil
		}
		if err == nil {
			e, err = p.of.admit(key, w)
		}
		if err != nil {
			p.reject(key, version)
			return &Rejection{Key: key, Version: version, Err: err}
		}
		s.mutations = append(s.mutations, mutation[T]{key: key, new: e})
		p.advance(s, key, version.ResourceVersion)
		return nil
	case w.Type == Deletion && w.FinalStateKnown:
		return p.stageDeletion(s, w)
	case w.Type == Deletion:
		key, err := p.normalize(w.Key)
		if err == nil {
			err = p.checkOwner(key, Version{})
		}
		if err != nil {
			return &Rejection{Key: w.Key, Err: err}
		}
		p.remove(s, mutation[T]{key: key, outOfScope: w.OutOfScope}, w.Version.ResourceVersion)
		return nil
	}
	key, _ := p.normalize(w.Key)
	p.reject(key, w.Version)
	return &Rejection{Key: key, Version: w.Version, Err: errNoWrite}
}

// admit prepares the entry of a write, if the budget allows it.
func (c *Cache[T]) admit(key Key, w *Write[T]) (*entry[T], error) {
	e, err := c.prepare(key, w.Object, w.Version)
	if err != nil || c.budget == nil {
		return e, err
	}
	if err := c.budget.admit(c, key, w.Object); err != nil {
		c.release(e.terms())
		return nil, err
	}
	return e, nil
}

// prepare makes the entry of an object and runs the index functions for it. The caller knows the
// key and holds writer.
func (c *Cache[T]) prepare(key Key, object T, version Version) (*entry[T], error) {
	e := c.newEntry()
	e.name, e.object = key.Name, object
	if version != (Version{}) && (!c.versioned || version != knownVersion(object)) {
		override := version // so that a version is on the heap only here
		e.version = &override
		c.carries.Store(true)
	}
	if len(c.indexes) == 0 {
		return e, nil
	}
	terms := c.scratch.terms[:0]
	held := c.table.entry(key)
	for _, x := range c.indexes {
		start := len(terms)
		var err error
		if terms, err = x.terms(terms, held.section(x.position), key, object); err != nil {
			c.release(terms)
			c.reuseTerms(terms)
			return nil, err
		}
		terms = terms[:start+len(x.arrange(terms[start:]))]
	}
	e.setTerms(terms)
	c.reuseTerms(terms)
	return e, nil
}

// reuseTerms keeps the memory of some terms for the next call of prepare. The caller holds writer.
func (c *Cache[T]) reuseTerms(terms []*term) {
	c.scratch.terms = nil
	if cap(terms) <= maxScratch {
		clear(terms)
		c.scratch.terms = terms[:0]
	}
}

// newEntry returns a zero entry. It reuses an entry of an earlier commit if it can. The caller
// holds writer.
func (c *Cache[T]) newEntry() *entry[T] {
	last := len(c.scratch.entries) - 1
	if last < 0 {
		return new(entry[T])
	}
	e := c.scratch.entries[last]
	c.scratch.entries[last] = nil // or the array would keep the object in memory
	c.scratch.entries = c.scratch.entries[:last]
	return e
}

// stageDeletion is stage for a Deletion with the last state.
func (p *Partition[T]) stageDeletion(s *txn[T], w *Write[T]) *Rejection {
	key, version, err := p.recognise(w)
	ownerErr := p.checkOwner(key, version)
	if ownerErr != nil {
		err = ownerErr // this partition must not delete the object, even by its key
	}
	if err != nil {
		if w.Key == (Key{}) || ownerErr != nil {
			p.reject(key, version)
			return &Rejection{Key: key, Version: version, Err: err}
		}
		// The last state is bad, but the key is enough.
		p.remove(s, mutation[T]{key: key, outOfScope: w.OutOfScope}, version.ResourceVersion)
		return nil
	}
	final := &entry[T]{object: w.Object}
	if w.Version != (Version{}) {
		override := w.Version
		final.version = &override
	}
	p.remove(s, mutation[T]{key: key, final: final, outOfScope: w.OutOfScope}, version.ResourceVersion)
	return nil
}

// advance records that the partition has received every change up to a resource version. It also
// clears a rejected key, if key is set. An empty version changes no version, nor does any version
// before the first Replace. A rejected key holds back resourceVersion, but not seen.
func (p *Partition[T]) advance(s *txn[T], key Key, resourceVersion string) {
	if key != (Key{}) {
		p.clearRejected(key)
	}
	if !p.complete || resourceVersion == "" {
		return
	}
	s.seen = resourceVersion
	if !p.rejected.any() {
		s.resourceVersion = resourceVersion
	}
}
