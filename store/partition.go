package store

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// ErrOutOfScope means that a write, a wait or a scope concerns objects that are not in the partition:
// the object is outside of the scope, a scope overlaps the scope of another partition, or the
// partition was dropped. The error that wraps it names the scope. Write through the partition that
// contains the objects.
var ErrOutOfScope = errors.New("object is outside of the partition's scope")

var (
	errOverlap    = fmt.Errorf("%w: a partition of the cache overlaps it: write through that partition, or drop it first", ErrOutOfScope)
	errDropped    = fmt.Errorf("%w: the partition was dropped: get a new one from Cache.Partition", ErrOutOfScope)
	errOwnerShard = errors.New("a scope cannot be a shard by owner: give that shard to a reflector, by reflector.WithShard")
)

// ErrNotHeld means that a list named an object as unchanged, which the store does not hold. List the
// object again.
var ErrNotHeld = errors.New("object was listed as unchanged, but is not held")

// scopeError says for which scope something cannot be done.
func scopeError(scope Scope, err error) error { return fmt.Errorf("scope of %v: %w", scope, err) }

// Partition is the door of a [Cache] for one writer of several: a reflector of
// one namespace, or of one cluster. It has a resource version of its own, its
// Replace touches what is in its scope only, and its Bookmark speaks for it
// alone. What it holds is read from the cache.
//
// Get one from [Cache.Partition]. All methods are safe for concurrent use.
type Partition[T any] struct {
	of    *Cache[T]
	scope *Scope // nil for everything

	// dropped is set under Cache.writer and watches.mu, so either is enough to
	// read it.
	dropped bool
	// split is true for the whole of a cache that has partitions. Guarded by
	// watches.mu.
	split bool

	// Guarded as the fields of Cache.mu are.
	rejected        rejectedKeys
	resourceVersion string
	complete        bool

	// takenOver has the keys of this shard's objects that objects of another shard took, and the
	// resource version of that object: see Partition.outdated. Guarded by Cache.writer.
	takenOver map[Key]string

	// waiters wait for a resource version, the lowest first.
	// Guarded by watches.mu.
	waiters []*waiter
}

var _ BatchStore[any] = (*Partition[any])(nil)

// Partition returns the door for one part of the cache. Keys without a cluster get
// that of the scope, so that a KeyFunc need not know it; other keys must be in the
// scope, or are rejected with [ErrOutOfScope].
//
// A second call with the same scope returns the same partition. A scope that
// overlaps that of another partition is an error ([ErrOutOfScope]). What the cache holds in the scope stays, until the first
// Replace.
//
// As long as a cache has partitions, what is in them is written through them
// alone: through the cache itself, a Replace fails with [ErrOutOfScope], and any other write of an
// object in the scope of a partition is rejected with it. Objects in no partition may still be written one by one, unless a
// partition's object has their key. With partitions that are shards, an object whose UID is in no
// such shard is in no partition.
//
// A cache with partitions has no resource version of its own, and has to be
// replaced anew to get one when all are dropped. It is complete when all of them
// had their first Replace, or those that had none are dropped, and stays so when
// others are added.
//
// Of partitions that are shards, each holds the objects that its shard contains. Where
// one of another shard takes a key over, because an object was made anew, it stays,
// whenever the writer of the old one's shard hears of that one's end.
func (c *Cache[T]) Partition(scope Scope) (*Partition[T], error) {
	if scope.Shard.By == ByOwner {
		return nil, scopeError(scope, errOwnerShard)
	}
	c.writer.Lock()
	defer c.writer.Unlock()
	for _, p := range c.partitions {
		if *p.scope == scope {
			return p, nil
		}
		if p.scope.overlaps(scope) {
			return nil, scopeError(scope, errOverlap)
		}
	}
	p := &Partition[T]{of: c, scope: &scope}
	c.mu.Lock()
	c.published.Store(nil)
	c.partitions = append(c.partitions, p)
	c.whole.forgetLocked()
	c.mu.Unlock()
	c.watches.split(c.whole, true)
	return p, nil
}

// Partitions returns the partitions of the cache, in the order in which they came. A
// follower may ask for them.
func (c *Cache[T]) Partitions() []*Partition[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.partitions)
}

// Drop deletes everything in a scope in one commit, whose deletions say OutOfScope, and forgets
// the partitions that are in it: what is written to them from now on fails with [ErrOutOfScope], and so does waiting for their resource
// version.
//
// A scope that has only a part of a partition is an error ([ErrOutOfScope]), and so is a shard
// [ByOwner]: nothing is deleted. In a cache without partitions, deleting
// is no news from the server: if there was something in the scope, the cache has
// no resource version and is not complete until the next Replace.
func (c *Cache[T]) Drop(scope Scope) error {
	if scope.Shard.By == ByOwner {
		return scopeError(scope, errOwnerShard)
	}
	c.writer.Lock()
	defer c.writer.Unlock()
	within := func(p *Partition[T]) bool { return scope.covers(*p.scope) }
	for _, p := range c.partitions {
		if p.scope.overlaps(scope) && !within(p) {
			return scopeError(scope, errOverlap)
		}
	}
	for _, p := range c.partitions {
		if within(p) {
			c.watches.drop(p)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(c.partitions), within)
	c.watches.split(c.whole, len(rest) > 0)
	var gone []mutation[T]
	for e := range (&Partition[T]{of: c, scope: &scope}).held() {
		gone = append(gone, mutation[T]{key: e.key()})
	}
	c.mu.Lock()
	c.published.Store(nil)
	if len(c.partitions) == 0 && (len(gone) > 0 || c.whole.rejected.in(scope)) {
		c.whole.forgetLocked()
		c.complete = false
	}
	if scope.Shard.whole() { // else nobody knows which of them are in it
		c.whole.rejected.forget(scope)
	}
	c.partitions = rest
	// The one that everybody waited for may be gone.
	c.complete = c.complete || len(c.partitions) > 0 && c.allComplete(nil)
	c.mu.Unlock()

	s := txn[T]{origin: Watch, outOfScope: true, mutations: gone, resourceVersion: c.whole.resourceVersion}
	c.commit(c.whole, &s)
	return nil
}

// forgetLocked notes that nobody knows any more what is missing.
func (p *Partition[T]) forgetLocked() { p.resourceVersion, p.complete = "", false }

// allComplete reports whether, after a Replace of p, all that the cache is made
// of had one.
func (c *Cache[T]) allComplete(p *Partition[T]) bool {
	return p == c.whole || !slices.ContainsFunc(c.partitions, func(p *Partition[T]) bool { return !p.complete })
}

// Scope returns what the partition is for.
func (p *Partition[T]) Scope() Scope {
	if p.scope == nil {
		return Scope{}
	}
	return *p.scope
}

func (p *Partition[T]) scopeError(err error) error { return scopeError(p.Scope(), err) }

// normalize returns the key that an object has in the cache: a key without a cluster gets the cluster
// of the scope. It also returns [ErrOutOfScope] if the key is outside of the scope.
func (p *Partition[T]) normalize(key Key) (Key, error) {
	if p.scope == nil || key == (Key{}) {
		return key, nil
	}
	if key.Cluster == "" {
		key.Cluster = p.scope.Cluster
	}
	if !p.scope.contains(key) {
		return key, fmt.Errorf("%w: %v", ErrOutOfScope, *p.scope)
	}
	return key, nil
}

// checkOwner returns an error if this partition must not write the object: the object is outside of
// the scope, or belongs to another partition. A partition cannot check the shard of an object
// without a version. The caller holds writer.
func (p *Partition[T]) checkOwner(key Key, version Version) error {
	if p.scope != nil || key == (Key{}) {
		key, err := p.normalize(key)
		if err == nil && version != (Version{}) && !p.inShard(key, version) {
			err = fmt.Errorf("%w: %v", ErrOutOfScope, *p.scope)
		}
		return err
	}
	for _, other := range p.of.partitions {
		if other.scope.contains(key) && other.claims(key, version) {
			return scopeError(*other.scope, errOverlap)
		}
	}
	return nil
}

// claims reports whether an object under a key that the scope contains, or the one that is held
// there, belongs to the partition. One that does not tell its UID may. The caller holds writer.
func (p *Partition[T]) claims(key Key, version Version) bool {
	if !p.sharded() || p.scope.Shard.By == ByNamespace {
		return p.inShard(key, version)
	}
	held, ok := p.of.heldByWriter(key)
	return ok && p.inShard(key, held) || version.UID == "" && !ok || version.UID != "" && p.inShard(key, version)
}

// reject records a rejected key, which holds back the resource version. It ignores
// an object of another owner, because no later write here would clear that key.
// The caller holds writer.
func (p *Partition[T]) reject(key Key, version Version) {
	if p.checkOwner(key, version) != nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.rejected.add(key)
}

// clearRejected clears a rejected key. The caller holds writer.
func (p *Partition[T]) clearRejected(key Key) {
	if !p.rejected.keys[key] {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.rejected.remove(key)
}

// held iterates over what is held in the scope, for the writer.
func (p *Partition[T]) held() iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		if p.scope == nil {
			p.of.entries.scan(func(h *header) bool { return yield(entryOf[T](h)) })
			return
		}
		from := pivot(Key{Cluster: p.scope.Cluster, Namespace: p.scope.Namespace})
		p.of.entries.ascend(from, func(h *header) bool {
			e := entryOf[T](h)
			return p.scope.contains(e.key()) && (!p.inShard(e.key(), e.known()) || yield(e))
		})
	}
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

// Replace implements [Store]: see [Cache.Replace]. What is outside of the scope
// is not touched.
func (p *Partition[T]) Replace(objects []T, resourceVersion string) error {
	b := newReplace(p, false, len(objects))
	defer b.Discard() // if a function ends the goroutine
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

// BeginBatch implements [BatchStore].
func (p *Partition[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	switch {
	case self != Store[T](p):
		return nil
	case replace:
		return newReplace(p, true, 0)
	}
	return &watchBatch[T]{of: p}
}

// Has implements [BatchStore].
func (p *Partition[T]) Has(key Key, version Version) bool {
	key, err := p.normalize(key)
	if err != nil {
		return false
	}
	held, ok := p.of.held(key)
	return ok && held.Equal(version)
}

// KeyOf returns the key that an object has in the cache, held or not. An error is
// what a write of it would be rejected with.
func (p *Partition[T]) KeyOf(object T) (Key, error) {
	key, _, err := p.identify(object)
	return key, err
}
