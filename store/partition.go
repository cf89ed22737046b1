package store

import (
	"errors"
	"fmt"
	"iter"
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
	of    *Cache[T]
	scope *Scope // nil for everything

	// Guarded like the fields below Cache.mu.
	dropped         bool
	rejected        rejectedKeys
	resourceVersion string
	complete        bool
}

var _ BatchStore[any] = (*Partition[any])(nil)

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
// one. The cache is synced when each partition had its first Replace or was dropped. It stays
// synced when a caller adds partitions later.
func (c *Cache[T]) Partition(scope Scope) (*Partition[T], error) {
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
	within := func(p *Partition[T]) bool { return scope.covers(*p.scope) }
	for _, p := range c.partitions {
		if p.scope.overlaps(scope) && !within(p) {
			return scopeError(scope, errOverlap)
		}
	}
	var gone []mutation[T]
	for e := range (&Partition[T]{of: c, scope: &scope}).held() {
		gone = append(gone, mutation[T]{key: e.key(), outOfScope: true})
	}
	c.mu.Lock()
	c.published.Store(nil)
	rejected := c.whole.rejected.in(scope)
	if len(c.partitions) == 0 && (len(gone) > 0 || len(rejected) > 0) {
		c.whole.forgetLocked()
		c.complete = false
	}
	for _, key := range rejected {
		delete(c.whole.rejected, key)
	}
	rest := make([]*Partition[T], 0, len(c.partitions))
	for _, p := range c.partitions {
		if p.dropped = within(p); !p.dropped {
			rest = append(rest, p)
		}
	}
	c.partitions = rest
	// The dropped partition may have been the last one without a Replace.
	c.complete = c.complete || len(rest) > 0 && c.allComplete(nil)
	c.mu.Unlock()

	s := txn[T]{origin: Watch, mutations: gone, resourceVersion: c.whole.resourceVersion}
	c.commit(c.whole, &s)
	return nil
}

// forgetLocked makes the partition incomplete until the next Replace.
func (p *Partition[T]) forgetLocked() { p.resourceVersion, p.complete = "", false }

// allComplete reports whether, after a Replace of p, all partitions had a Replace.
func (c *Cache[T]) allComplete(p *Partition[T]) bool {
	return p == c.whole || !slices.ContainsFunc(c.partitions, func(p *Partition[T]) bool { return !p.complete })
}

// Scope returns the scope of the partition.
func (p *Partition[T]) Scope() Scope {
	if p.scope == nil {
		return Scope{}
	}
	return *p.scope
}

func (p *Partition[T]) scopeError(err error) error { return scopeError(p.Scope(), err) }

// held iterates over the entries of the partition. The caller holds writer.
func (p *Partition[T]) held() iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		if p.scope == nil {
			p.of.entries.scan(func(h *header) bool { return yield(entryOf[T](h)) })
			return
		}
		from := pivot(Key{Cluster: p.scope.Cluster, Namespace: p.scope.Namespace})
		p.of.entries.ascend(from, func(h *header) bool {
			e := entryOf[T](h)
			return p.scope.Contains(e.key()) && yield(e)
		})
	}
}

// normalize returns the key that an object has in the cache: a key without a cluster gets the
// cluster of the scope. It returns [ErrOutOfScope] as well if the key is outside of the scope.
func (p *Partition[T]) normalize(key Key) (Key, error) {
	if p.scope == nil || key == (Key{}) {
		return key, nil
	}
	if key.Cluster == "" {
		key.Cluster = p.scope.Cluster
	}
	if !p.scope.Contains(key) {
		return key, fmt.Errorf("%w: %v", ErrOutOfScope, *p.scope)
	}
	return key, nil
}

// checkOwner returns an error if this partition must not write under a key: the key is outside of
// the scope, or belongs to another partition. The caller holds writer.
func (p *Partition[T]) checkOwner(key Key) error {
	if p.scope != nil || key == (Key{}) {
		_, err := p.normalize(key)
		return err
	}
	for _, other := range p.of.partitions {
		if other.scope.Contains(key) {
			return scopeError(*other.scope, errOverlap)
		}
	}
	return nil
}
