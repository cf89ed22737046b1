package store

import (
	"errors"
	"fmt"
)

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
	b := newReplace(p, false, len(objects))
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

// stage adds a write to a txn, or returns a rejection. The caller holds writer.
func (p *Partition[T]) stage(s *txn[T], w *Write[T]) *Rejection {
	c := p.of
	key, version, err := p.identify(w)
	deletion, hasFinal := w.Err == nil && w.Type == Deletion, w.FinalStateKnown && err == nil
	owned := version
	if deletion && !w.FinalStateKnown {
		owned = Version{} // the version of the deletion, without a UID
	}
	ownerErr := p.checkOwner(key, owned)
	if ownerErr != nil {
		err = errors.Join(ownerErr, w.Err)
	} else if deletion && w.Key != (Key{}) {
		err = nil // the last state may be bad, because the key is enough
	}
	switch {
	case err != nil:
	case deletion:
		m := mutation[T]{key: key, outOfScope: w.OutOfScope}
		if hasFinal {
			m.final = &entry[T]{object: w.Object}
			m.final.setVersion(w.Version)
		}
		p.remove(s, m, version.ResourceVersion)
		return nil
	case p.outdated(key, version):
		p.advance(s, key, version.ResourceVersion)
		return nil
	default:
		var e *entry[T]
		if e, err = c.prepare(key, w.Object, w.Version); err != nil {
			break
		}
		if err = c.budget.admit(c, key, w.Object); err != nil {
			c.release(e.terms())
			break
		}
		s.mutations = append(s.mutations, mutation[T]{key: key, new: e})
		p.advance(s, key, version.ResourceVersion)
		return nil
	}
	if ownerErr == nil { // else no later write here would clear the key
		c.mu.Lock()
		p.rejected.add(key)
		c.mu.Unlock()
	}
	return &Rejection{Key: key, Version: version, Err: err}
}

// identify returns the key and the version of a write, and the error for which the store must
// reject its object. With an error, it returns the parts that it knows.
func (p *Partition[T]) identify(w *Write[T]) (key Key, version Version, err error) {
	override, overrideErr := p.normalize(w.Key)
	switch {
	case w.Err != nil:
		return override, w.Version, w.Err
	case w.Type == Deletion && !w.FinalStateKnown:
		return override, w.Version, overrideErr
	case w.Type < Addition || w.Type > Deletion:
		return override, w.Version, errNoWrite
	}
	if key, version, err = identify(p.of.keyOf, p.of.versioned, w.Object); err == nil {
		key, err = p.normalize(key)
	}
	if w.Version != (Version{}) {
		version = w.Version
	}
	if override == (Key{}) {
		return key, version, err
	}
	if err == nil && key != override {
		err = fmt.Errorf("%w: it is %.253q, but the write says %.253q; let the KeyFunc of a Transform agree with the store's", ErrBadKey, key, override)
	}
	return override, version, err
}

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

// prepare makes the entry of an object and runs the index functions for it. The caller knows the
// key and holds writer. It gives a version only if the write gave one.
func (c *Cache[T]) prepare(key Key, object T, version Version) (e *entry[T], err error) {
	if last := len(c.scratch.entries) - 1; last >= 0 {
		e, c.scratch.entries[last] = c.scratch.entries[last], nil // or the array would keep the object in memory
		c.scratch.entries = c.scratch.entries[:last]
	} else {
		e = new(entry[T])
	}
	e.name, e.object = key.Name, object
	if version != (Version{}) && (!c.versioned || version != knownVersion(object)) {
		e.setVersion(version)
	}
	if len(c.indexes) == 0 {
		return e, nil
	}
	terms, held := c.scratch.terms[:0], c.table.entry(key)
	for _, x := range c.indexes {
		if terms, err = x.terms.find(terms, held.section(x.position), key, object); err != nil {
			c.release(terms)
			break
		}
	}
	if err != nil {
		e = nil
	} else {
		e.setTerms(terms)
	}
	c.scratch.terms = recycle(terms)
	return e, err
}

// advance records that the partition has received every change up to a resource version. It also
// clears a rejected key, if key is set. An empty version changes no version, nor does any version
// before the first Replace. A rejected key holds back resourceVersion, but not seen.
func (p *Partition[T]) advance(s *txn[T], key Key, resourceVersion string) {
	if p.rejected[key] && key != (Key{}) {
		p.of.mu.Lock()
		delete(p.rejected, key)
		p.of.mu.Unlock()
	}
	if !p.complete || resourceVersion == "" {
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
	key, _, err := p.identify(&Write[T]{Type: Addition, Object: object})
	return key, err
}
