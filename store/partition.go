package store

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Scope is a part of what a cache holds: one namespace of one cluster, or all of
// a cluster if Namespace is empty. The empty Cluster is the one whose keys have
// no cluster.
type Scope struct {
	Cluster   string
	Namespace string
}

// String returns "cluster|namespace", without what is empty.
func (s Scope) String() string {
	switch {
	case s.Cluster == "" && s.Namespace == "":
		return "all namespaces"
	case s.Cluster == "":
		return "namespace " + s.Namespace
	case s.Namespace == "":
		return "cluster " + s.Cluster
	}
	return "namespace " + s.Cluster + "|" + s.Namespace
}

func (s Scope) contains(key Key) bool {
	return key.Cluster == s.Cluster && (s.Namespace == "" || key.Namespace == s.Namespace)
}

func (s Scope) overlaps(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == other.Namespace || s.Namespace == "" || other.Namespace == "")
}

var (
	// ErrOutOfScope means that an object was written to a [Partition] that it is
	// no part of.
	ErrOutOfScope = errors.New("object is outside of the partition's scope")

	// ErrOverlap means that a cache has a partition with some of the same
	// objects, which would delete what the other one writes.
	ErrOverlap = errors.New("scope overlaps that of another partition of the cache; drop that one first")

	// ErrDropped means that something was written to a partition after its scope
	// had been dropped.
	ErrDropped = errors.New("partition was dropped")

	// ErrNotHeld means that a list named an object as unchanged which the store
	// does not hold.
	ErrNotHeld = errors.New("object was listed as unchanged, but is not held")
)

// ScopeError says that something cannot be done with a partition: Err is
// [ErrOverlap] or [ErrDropped].
type ScopeError struct {
	Scope Scope
	Err   error
}

// Error names the scope and the cause.
func (e *ScopeError) Error() string { return fmt.Sprintf("partition of %v: %v", e.Scope, e.Err) }

// Unwrap returns Err.
func (e *ScopeError) Unwrap() error { return e.Err }

// Partition is the door of a [Cache] for one writer of several: a reflector of
// one namespace, or of one cluster. It has a resource version of its own, its
// Replace touches what is in its scope only, and its Bookmark speaks for it
// alone. What it holds is read from the cache.
//
// Get one from [Cache.Partition]. All methods are safe for concurrent use.
type Partition[T any] struct {
	of    *Cache[T]
	scope *Scope // nil for everything

	// lacking is guarded by Cache.writer.
	lacking lacking
	// dropped is set under Cache.writer and watches.mu, so either is enough to
	// read it.
	dropped bool

	// Guarded as the fields of Cache.mu are.
	resourceVersion string
	complete        bool

	// waiters are those who wait for a resource version, the lowest first.
	// Guarded by watches.mu.
	waiters []*waiter
}

var _ BatchStore[any] = (*Partition[any])(nil)

// Partition returns the door for one part of the cache, as long as nobody writes
// what is in it through the cache itself. Keys without a cluster get that of the
// scope, so that a KeyFunc need not know it; other keys must be in the scope, or
// are rejected with [ErrOutOfScope].
//
// A second call with the same scope returns the same partition. A scope that
// overlaps that of another partition is refused with a [*ScopeError]
// ([ErrOverlap]). What the cache holds in the scope stays, until the first
// Replace.
//
// A cache with partitions has no resource version of its own. It is complete
// when all of them had their first Replace, or those that had none are dropped,
// and stays so when others are added.
func (c *Cache[T]) Partition(scope Scope) (*Partition[T], error) {
	c.writer.Lock()
	defer c.writer.Unlock()
	for _, p := range c.partitions {
		if *p.scope == scope {
			return p, nil
		}
		if p.scope.overlaps(scope) {
			return nil, &ScopeError{Scope: scope, Err: ErrOverlap}
		}
	}
	p := &Partition[T]{of: c, scope: &scope}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published.Store(nil)
	c.partitions = append(c.partitions, p)
	return p, nil
}

// Drop deletes everything in a scope in one commit, and forgets the partitions
// that are in it: what is written to them from now on is refused with a
// [*ScopeError] ([ErrDropped]), and who waits for their resource version gets it,
// too. It returns what it deleted.
func (c *Cache[T]) Drop(scope Scope) []Change[T] {
	c.writer.Lock()
	defer c.writer.Unlock()
	within := func(p *Partition[T]) bool {
		return scope.contains(Key{Cluster: p.scope.Cluster, Namespace: p.scope.Namespace})
	}
	for _, p := range c.partitions {
		if within(p) {
			c.watches.drop(p)
		}
	}
	c.mu.Lock()
	c.published.Store(nil)
	c.partitions = slices.DeleteFunc(slices.Clone(c.partitions), within)
	// The one that everybody waited for may be gone.
	c.complete = c.complete || len(c.partitions) > 0 && c.allComplete(nil)
	c.mu.Unlock()
	maps.DeleteFunc(c.whole.lacking.keys, func(key Key, _ bool) bool { return scope.contains(key) })

	s := step[T]{origin: Watch, resourceVersion: c.whole.resourceVersion}
	for e := range (&Partition[T]{of: c, scope: &scope}).held() {
		s.edits = append(s.edits, edit[T]{key: e.key()})
	}
	changes, _ := c.commit(c.whole, &s, true) // deletions claim nothing, so no hook runs
	return changes
}

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

func (p *Partition[T]) droppedError() error {
	return &ScopeError{Scope: p.Scope(), Err: ErrDropped}
}

// place returns the key that an object has in the cache.
func (p *Partition[T]) place(key Key) (Key, error) {
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

// held iterates over what is held in the scope, for the writer.
func (p *Partition[T]) held() iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		if p.scope == nil {
			p.of.entries.Scan(yield)
			return
		}
		from := pivot[T](Key{Cluster: p.scope.Cluster, Namespace: p.scope.Namespace})
		p.of.entries.Ascend(from, func(e *entry[T]) bool {
			return p.scope.contains(e.key()) && yield(e)
		})
	}
}
