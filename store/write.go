package store

import (
	"errors"
	"fmt"
)

// txn is a commit that the cache has not made yet.
type txn[T any] struct {
	origin     Origin
	initial    bool
	mutations  []mutation[T]
	rejections []Rejection

	// resourceVersion is the partition's version after the commit. seen is the version up to which
	// the partition has received every change, rejected objects included.
	resourceVersion string
	seen            string
	last            string       // of the batch; no write moves the version beyond it. Empty if unknown
	replaced        bool         // by a list
	rejected        rejectedKeys // of a list; the commit gives them to the partition
	// lowered is true if the list has a lower version than the partition, as after a restore of the
	// API server from a backup. The commit then takes the version of the list, or none if the list
	// has a rejected object.
	lowered bool
}

// mutation is the change that a commit makes under one key. It stores new, or removes the current
// entry if new is nil. final is the last state of a deleted object, if the server reported it.
// With new, old is the entry of the table at first. mutateTrees sets old to the entry that it
// replaced or removed. A mutation without old and new changed nothing.
type mutation[T any] struct {
	key             Key
	old, new, final *entry[T]
	oldIsFree       bool      // neither a tree nor a snapshot has the entry old
	nsMap           *nsMap[T] // of new
	outOfScope      bool      // the removed object still exists on the server
	repeated        bool      // new has the content that an earlier mutation of the commit stored
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
	// maxFreeEntries is how many free entries of about 80 bytes the cache keeps.
	maxFreeEntries = 64
)

// recycle returns the memory of a slice for the next commit, or nil if the slice is too large.
func recycle[E any](s []E) []E {
	if cap(s) > maxScratch {
		return nil
	}
	clear(s)
	return s[:0]
}

// Add implements [Store]: see [Cache.Add].
func (p *Partition[T]) Add(object T) error {
	return p.apply([]Write[T]{{Type: Addition, Object: object}}, "")
}

// Update implements [Store]: see [Cache.Update].
func (p *Partition[T]) Update(object T) error {
	return p.apply([]Write[T]{{Type: Modification, Object: object}}, "")
}

// Delete implements [Store].
func (p *Partition[T]) Delete(object T) error {
	return p.apply([]Write[T]{{Type: Deletion, Object: object, FinalStateKnown: true}}, "")
}

// DeleteKey implements [Store]: see [Cache.DeleteKey].
func (p *Partition[T]) DeleteKey(key Key) error {
	return p.apply([]Write[T]{{Type: Deletion, Key: key}}, "")
}

// Replace implements [Store]: see [Cache.Replace]. Objects outside of the scope stay.
func (p *Partition[T]) Replace(objects []T, resourceVersion string) error {
	b := &replaceBatch[T]{of: p, writes: make([]write[T], 0, len(objects))}
	for i := range objects {
		if err := b.Write(Write[T]{Type: Addition, Object: objects[i]}); err != nil {
			break // Commit returns it
		}
	}
	return b.Commit(resourceVersion)
}

// Bookmark implements [Store].
func (p *Partition[T]) Bookmark(resourceVersion string) error {
	return p.apply(nil, resourceVersion)
}

// ResourceVersion implements [Store].
func (p *Partition[T]) ResourceVersion() string {
	p.of.mu.RLock()
	defer p.of.mu.RUnlock()
	return p.resourceVersion
}

// write is a [Write] whose key and version the partition knows.
type write[T any] struct {
	key     Key
	version Version
	object  T     // zero if err is set
	err     error // why the cache must reject the write
	what    action

	given bool // the Write gives the version
	hash  uint64
	grows bool // see Budget.growing

	// entry is the entry that prepare made, or the last state of a deleted object; nil for none.
	// indexes is the number of indexes whose terms it has. Cache.writer guards the terms.
	entry   *entry[T]
	indexes int

	share int64 // of a list: see Budget.gather
}

// action says what a write does under its key.
type action uint8

const (
	isStored action = iota
	isDeleted
	isKept // a list has the version that the cache holds
)

// apply makes writes of a watch in one commit. The resource version is as in [Batch].
func (p *Partition[T]) apply(writes []Write[T], resourceVersion string) error {
	c := p.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if p.dropped {
		return p.scopeError(errDropped)
	}
	s := txn[T]{origin: Watch, resourceVersion: p.resourceVersion, last: resourceVersion, mutations: c.scratch.mutations[:0]}
	c.budget.begin()
	for i := range writes {
		w := p.identify(&writes[i])
		p.stage(&s, &w)
	}
	p.advance(&s, Key{}, resourceVersion)
	if len(s.mutations) > 0 || s.resourceVersion != p.resourceVersion || s.seen != "" && s.seen != p.resourceVersion {
		c.commit(p, &s)
	}
	return rejectedError(s.rejections)
}

// remove adds a mutation to a txn that deletes the object under a key. The caller holds writer.
func (p *Partition[T]) remove(s *txn[T], e mutation[T], resourceVersion string) {
	p.advance(s, e.key, resourceVersion)
	p.of.budget.leave(p.of, e.key)
	s.mutations = append(s.mutations, e)
}

// stage adds a write to a txn, as a mutation or as a rejection. The caller holds writer.
func (p *Partition[T]) stage(s *txn[T], w *write[T]) {
	c := p.of
	if err := p.checkOwner(w.key); err != nil {
		if !errors.Is(w.err, ErrOutOfScope) {
			w.err = errors.Join(err, w.err)
		}
		// No later write of this partition would clear the key, so rejected does not get it.
		s.rejections = append(s.rejections, Rejection{Key: w.key, Version: w.version, Err: w.err})
		return
	}
	nsMap, held := c.table.find(w.key)
	switch {
	case w.err != nil:
	case w.what == isDeleted:
		p.remove(s, mutation[T]{key: w.key, final: w.entry}, w.version.ResourceVersion)
		return
	case w.what == isKept:
		if held != nil {
			return
		}
		w.err = ErrNotHeld
	case c.isUnchanged(s, w, held):
		p.advance(s, w.key, w.version.ResourceVersion)
		return
	default:
		if w.err = c.prepare(w, held); w.err == nil {
			w.err = c.budget.admit(c, w.key, w.object)
		}
		if w.err == nil {
			s.mutations = append(s.mutations, mutation[T]{key: w.key, old: held, new: w.entry, nsMap: nsMap})
			w.entry = nil
			p.advance(s, w.key, w.version.ResourceVersion)
			return
		}
	}
	c.free(w)
	if s.replaced {
		s.rejected.add(w.key)
	} else {
		c.mu.Lock()
		p.rejected.add(w.key)
		c.mu.Unlock()
		if lower(w.version.ResourceVersion, s.resourceVersion) { // a batch of several watches has no order
			s.resourceVersion = p.resourceVersion
		}
	}
	s.rejections = append(s.rejections, Rejection{Key: w.key, Version: w.version, Err: w.err})
}

// identify derives the key and the version of a write, and the error for which the store must
// reject it. With an error, it sets the parts that it knows.
func (p *Partition[T]) identify(from *Write[T]) (w write[T]) {
	w.version, w.given, w.hash = from.Version, from.Version != (Version{}), from.Hash
	w.key, w.err = p.normalize(from.Key)
	if from.Err == nil && from.Type == Deletion {
		w.what = isDeleted
	}
	switch {
	case from.Err != nil:
		w.err = from.Err
	case w.what == isDeleted && !from.FinalStateKnown:
	case from.Type < Addition || from.Type > Deletion:
		w.err = errNoWrite
	default:
		key, version, err := p.of.identify(from.Object)
		if err == nil {
			key, err = p.normalize(key)
		}
		if !w.given {
			w.version = version
		}
		if from.Key == (Key{}) {
			w.key = key
		} else if err == nil && key != w.key {
			err = fmt.Errorf("%w: it is %.253q, but the write says %.253q; let the KeyFunc of a Transform agree with the store's", ErrBadKey, key, w.key)
		}
		switch {
		case err == nil && w.what == isStored:
			w.object = from.Object
		case err == nil:
			w.entry = &entry[T]{object: from.Object}
			w.entry.setVersion(from.Version)
		case w.what == isStored || from.Key == (Key{}): // a key is enough to delete
			w.err = err
		}
	}
	return w
}

// identify derives the key and the version of an object. With an error, it returns the parts that
// it could derive.
func (c *Cache[T]) identify(object T) (key Key, version Version, err error) {
	defer func() {
		// The methods of a nil object without a key panic when VersionOf calls them. The first
		// error says more than the panic.
		if value := recover(); value != nil && err == nil {
			key, version, err = Key{}, knownVersion(object), recovered(value)
		}
	}()
	if key, err = c.keyOf(object); err == nil && key == (Key{}) {
		err = errNoName
	}
	if err != nil {
		key = Key{}
	}
	return key, VersionOf(object), err
}

// prepare makes the entry of a write and runs the index functions for its object, again if the cache
// has a new index. held is the current entry under the key, or nil. The caller holds writer.
func (c *Cache[T]) prepare(w *write[T], held *entry[T]) (err error) {
	if w.entry != nil && w.indexes == len(c.indexes) {
		return nil
	}
	c.free(w)
	terms := c.scratch.terms[:0]
	for _, x := range c.indexes {
		if terms, err = x.terms.find(terms, held.section(x.position), w.key, w.object); err != nil {
			c.release(terms)
			c.scratch.terms = recycle(terms)
			return err
		}
	}
	var e *entry[T]
	if last := len(c.scratch.entries) - 1; last >= 0 {
		e, c.scratch.entries[last] = c.scratch.entries[last], nil // or the array would keep the object in memory
		c.scratch.entries = c.scratch.entries[:last]
	} else {
		e = new(entry[T])
	}
	e.name, e.object, e.hash = w.key.Name, w.object, w.hash
	if w.given && w.version != knownVersion(w.object) {
		e.setVersion(w.version)
	}
	e.setTerms(terms)
	c.scratch.terms = recycle(terms)
	w.entry, w.indexes = e, len(c.indexes)
	return nil
}

// free releases the index values of a write that no txn has.
func (c *Cache[T]) free(w *write[T]) {
	if w.entry != nil {
		c.release(w.entry.terms())
		w.entry = nil
	}
}

// advance records that the partition has received every change up to a resource version. It also
// clears a rejected key, if key is set. An empty version changes no version, nor does any version
// before the first Replace. A rejected key holds back resourceVersion, but not seen. For a list,
// advance does nothing, because replaceBatch.Commit sets them all.
func (p *Partition[T]) advance(s *txn[T], key Key, resourceVersion string) {
	if s.replaced {
		return
	}
	if p.rejected[key] && key != (Key{}) {
		p.of.mu.Lock()
		delete(p.rejected, key)
		p.of.mu.Unlock()
	}
	if !p.complete || resourceVersion == "" || lower(s.last, resourceVersion) {
		return
	}
	s.seen = resourceVersion
	if len(p.rejected) == 0 {
		s.resourceVersion = resourceVersion
	}
}

// KeyOf returns the key that an object has in the cache, whether the cache holds it or not. It
// returns an error if a write of the object would be rejected with that error.
func (p *Partition[T]) KeyOf(object T) (Key, error) {
	w := p.identify(&Write[T]{Type: Addition, Object: object})
	return w.key, w.err
}
