package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// ErrOutOfScope means that a write, a wait or a scope concerns objects that are not in the
// partition. Either the object is outside of the scope, or a scope overlaps the scope of another
// partition, or the partition was dropped. The error that wraps it names the scope. Write through
// the partition that contains the objects.
var ErrOutOfScope = errors.New("object is outside of the partition's scope")

var (
	errOverlap = fmt.Errorf("%w: a partition of the cache overlaps it: write through that partition, or drop it first", ErrOutOfScope)
	errDropped = fmt.Errorf("%w: the partition was dropped: get a new one from Cache.Partition", ErrOutOfScope)
)

// ErrNotHeld means that a list named an object as unchanged, but the store does not hold the
// object. List the object again.
var ErrNotHeld = errors.New("object was listed as unchanged, but is not held")

// scopeError adds the scope to an error.
func scopeError(scope Scope, err error) error { return fmt.Errorf("scope of %v: %w", scope, err) }

// Partition is a part of a [Cache] that has a writer of its own, such as the reflector of one
// namespace or cluster. It has its own resource version. Its Replace deletes nothing outside of its
// scope. Read its objects from the cache.
//
// Get one from [Cache.Partition]. All methods are safe for concurrent use.
type Partition[T any] struct {
	cache    *Cache[T]
	scope    Scope
	progress      // guarded like the fields below Cache.mu
	dropped  bool // guarded like the fields below Cache.mu
}

var _ BatchStore[any] = (*Partition[any])(nil)

// Add implements [Store]: see [Cache.Add].
func (p *Partition[T]) Add(object T) error {
	return p.cache.write(p, "", Write[T]{Type: Addition, Object: object})
}

// Update implements [Store]: see [Cache.Update].
func (p *Partition[T]) Update(object T) error {
	return p.cache.write(p, "", Write[T]{Type: Modification, Object: object})
}

// Delete implements [Store].
func (p *Partition[T]) Delete(object T) error {
	return p.cache.write(p, "", Write[T]{Type: Deletion, Object: object, FinalStateKnown: true})
}

// DeleteKey implements [Store]: see [Cache.DeleteKey].
func (p *Partition[T]) DeleteKey(key Key) error {
	return p.cache.write(p, "", Write[T]{Type: Deletion, Key: key})
}

// Replace implements [Store]: see [Cache.Replace]. Objects outside of the scope stay.
func (p *Partition[T]) Replace(objects []T, resourceVersion string) error {
	return p.cache.replace(p, objects, resourceVersion)
}

// Bookmark implements [Store].
func (p *Partition[T]) Bookmark(resourceVersion string) error {
	return p.cache.write(p, resourceVersion)
}

// BeginBatch implements [BatchStore].
func (p *Partition[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	if self != Store[T](p) {
		return nil
	}
	return p.cache.newBatch(p, replace)
}

// Has implements [BatchStore].
func (p *Partition[T]) Has(key Key, version Version, hash uint64) bool {
	key, err := p.normalize(key)
	return err == nil && p.cache.Has(key, version, hash)
}

// ResourceVersion implements [Store].
func (p *Partition[T]) ResourceVersion() string {
	p.cache.mu.RLock()
	defer p.cache.mu.RUnlock()
	return p.resourceVersion
}

// KeyOf returns the key that an object has in the cache, whether the cache holds it or not. It
// returns an error if a write of the object would be rejected with that error.
func (p *Partition[T]) KeyOf(object T) (Key, error) { return p.cache.keyFor(p, object) }

// Synced reports whether the partition has had its first Replace.
func (p *Partition[T]) Synced() bool {
	p.cache.mu.RLock()
	defer p.cache.mu.RUnlock()
	return p.synced
}

// Scope returns the scope of the partition.
func (p *Partition[T]) Scope() Scope { return p.scope }

// Partition returns the partition of a scope. A second call with the same scope returns the same
// partition. It fails if the scope overlaps the scope of another partition ([ErrOutOfScope]).
// Objects that the cache holds in the scope stay until the first Replace of the partition.
//
// A key without a cluster gets the cluster of the scope, so a KeyFunc need not know it. The
// partition rejects other keys outside of the scope with [ErrOutOfScope].
//
// While a cache has partitions, write their objects through them. A Replace of the cache itself
// fails with [ErrOutOfScope], and the cache rejects any other write of an object that belongs to a
// partition. A caller may write objects that belong to no partition to the cache one by one.
//
// A cache with partitions has no resource version. When all are dropped, the next Replace gives it
// one. The cache is synced when each of its partitions, at least one, had its first Replace. It stays
// synced when a caller adds partitions later.
func (c *Cache[T]) Partition(scope Scope) (*Partition[T], error) {
	c.writer.Lock()
	defer c.writer.Unlock()
	for _, p := range c.partitions {
		if p.scope == scope {
			return p, nil
		}
		if p.scope.overlaps(scope) {
			return nil, scopeError(scope, errOverlap)
		}
	}
	p := &Partition[T]{cache: c, scope: scope}
	c.mu.Lock()
	c.current.Store(nil)
	c.partitions = append(c.partitions, p)
	c.own.forget()
	c.mu.Unlock()
	return p, nil
}

// Partitions returns the partitions of the cache, the oldest first. A follower may call it.
func (v *View[T]) Partitions() []*Partition[T] {
	v.of.mu.RLock()
	defer v.of.mu.RUnlock()
	return slices.Clone(v.of.partitions)
}

// Drop deletes all objects in a scope in one commit. Its deletions say OutOfScope. Drop also drops
// the partitions in the scope. From then on, writes to them and waits for their resource versions
// fail with [ErrOutOfScope].
//
// Drop returns an error and deletes nothing if the scope contains only a part of a partition
// ([ErrOutOfScope]). If Drop deletes objects or clears rejected keys in a
// cache without partitions, the cache has no resource version and is not synced until the next
// Replace.
func (c *Cache[T]) Drop(scope Scope) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	within := func(p *Partition[T]) bool {
		return scope.Contains(Key{Cluster: p.scope.Cluster, Namespace: p.scope.Namespace})
	}
	for _, p := range c.partitions {
		if p.scope.overlaps(scope) && !within(p) {
			return scopeError(scope, errOverlap)
		}
	}
	tx := txn[T]{cache: c, progress: &c.own, origin: Watch, resourceVersion: c.own.resourceVersion}
	for e := range c.within(&scope) {
		tx.mutations = append(tx.mutations, mutation[T]{key: e.key(), outOfScope: true})
	}
	rejected := maps.Clone(c.own.rejected)
	maps.DeleteFunc(rejected, func(key Key, _ bool) bool { return key != (Key{}) && scope.Contains(key) })
	forgets := len(c.partitions) == 0 && (len(tx.mutations) > 0 || len(rejected) < len(c.own.rejected))
	if forgets {
		tx.resourceVersion = ""
	}
	tx.onShow = func() {
		if forgets {
			c.own.synced, c.synced = false, false
		}
		c.own.rejected = rejected
		rest := make([]*Partition[T], 0, len(c.partitions))
		for _, p := range c.partitions {
			if p.dropped = within(p); !p.dropped {
				rest = append(rest, p)
			}
		}
		c.partitions = rest
		// The dropped partition may have been the last one without a Replace.
		c.synced = c.synced || len(rest) > 0 && c.partitionsSynced()
	}
	tx.publish() // also without a deletion, so that followers see that a partition is dropped
	return nil
}

// partitionsSynced reports whether every partition had its first Replace.
func (c *Cache[T]) partitionsSynced() bool {
	return !slices.ContainsFunc(c.partitions, func(p *Partition[T]) bool { return !p.synced })
}

// within iterates over the entries in a scope, or with nil over all, in the order of keys. The caller
// holds writer.
func (c *Cache[T]) within(scope *Scope) iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		if scope == nil {
			c.entries.scan(func(h *header) bool { return yield(entryOf[T](h)) })
			return
		}
		c.entries.ascend(pivot(Key{Cluster: scope.Cluster, Namespace: scope.Namespace}), func(h *header) bool {
			e := entryOf[T](h)
			return scope.Contains(e.key()) && yield(e)
		})
	}
}

// normalize returns the key that an object has in the cache: a key without a cluster gets the
// cluster of the scope. It returns [ErrOutOfScope] as well if the key is outside of the scope.
func (p *Partition[T]) normalize(key Key) (Key, error) {
	if key == (Key{}) {
		return key, nil
	}
	if key.Cluster == "" {
		key.Cluster = p.scope.Cluster
	}
	if !p.scope.Contains(key) {
		return key, fmt.Errorf("%w: %v", ErrOutOfScope, p.scope)
	}
	return key, nil
}

// checkOwner returns an error if a partition, or with nil the cache itself, must not write under a
// key: the key is outside of the scope, or belongs to another partition. The caller holds writer.
func (c *Cache[T]) checkOwner(in *Partition[T], key Key) error {
	if in != nil {
		_, err := in.normalize(key)
		return err
	}
	if key == (Key{}) {
		return nil
	}
	for _, p := range c.partitions {
		if p.scope.Contains(key) {
			return scopeError(p.scope, errOverlap)
		}
	}
	return nil
}
