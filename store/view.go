package store

import (
	"iter"
	"slices"
)

// View reads a [Cache]. Each read sees one committed state, in the order of keys. An iteration runs
// on a snapshot and holds no lock.
//
// A View allows no writes of objects. Indexes can be added to it: the cache runs their functions for
// each write, and rejects an object on which one panics.
//
// The View field of a [Cache] is one. All methods are safe for concurrent use.
type View[T any] struct{ of *Cache[T] }

var (
	_ Reader[any]    = (*View[any])(nil)
	_ Indexable[any] = (*View[any])(nil)
)

func (v *View[T]) cache() *Cache[T] { return v.of }

// KeyOf returns the key of an object, whether the cache holds it or not. It returns an error if a
// write of the object would be rejected with that error.
func (v *View[T]) KeyOf(object T) (Key, error) { return v.of.whole.KeyOf(object) }

// Get implements [Reader].
func (v *View[T]) Get(key Key) (T, bool) {
	c := v.of
	c.mu.RLock()
	if before := c.frozen; before != nil {
		c.mu.RUnlock()
		return before.search(key)
	}
	object, ok := c.table.get(key)
	c.mu.RUnlock()
	return object, ok
}

// All implements [Reader]: it iterates over the state that is current when the
// iteration begins.
func (v *View[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) { v.Snapshot().All()(yield) }
}

// Namespace implements [Reader]: it iterates over the state that is current when
// the iteration begins.
func (v *View[T]) Namespace(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) { v.Snapshot().Namespace(namespace)(yield) }
}

// ResourceVersion implements [Store] and [Reader]. A cache with partitions has no
// version of its own, so it is empty: each [Partition] has one.
func (v *View[T]) ResourceVersion() string {
	c := v.of
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.resourceVersionLocked()
}

// Len implements [Reader].
func (v *View[T]) Len() int {
	c := v.of
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.frozen != nil {
		return c.frozen.Len()
	}
	return c.table.len
}

// Snapshot returns the current state, for several reads of one state. A single iteration needs none:
// All and Namespace take a snapshot themselves.
func (v *View[T]) Snapshot() *Snapshot[T] {
	c := v.of
	if s := c.published.Load(); s != nil {
		return s
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.published.Load(); s != nil {
		return s
	}
	s := &Snapshot[T]{
		of:              c,
		entries:         c.entries.copy(),
		resourceVersion: c.resourceVersionLocked(),
		complete:        c.complete,
		generation:      c.generation,
	}
	if len(c.indexes) > 0 {
		s.indexes = make([]postingTree, len(c.indexes))
		for i, x := range c.indexes {
			s.indexes[i] = x.tree.copy()
		}
	}
	c.epoch++
	c.published.Store(s)
	return s
}

// Follow gives the current state to a follower, and then every commit until the caller calls stop.
// The follower runs under the writer's lock. When stop returns, no call of the follower runs, and
// none follows. stop may be called more than once, but not by the follower.
func (v *View[T]) Follow(follower Follower[T]) (stop func()) {
	c := v.of
	c.writer.Lock()
	defer c.writer.Unlock()
	r := &registration[T]{follower: follower}
	follower.Start(c.Snapshot())
	c.followers = append(c.followers, r)
	return func() {
		c.writer.Lock()
		defer c.writer.Unlock()
		if i := slices.Index(c.followers, r); i >= 0 {
			c.followers = slices.Delete(c.followers, i, i+1)
		}
	}
}
