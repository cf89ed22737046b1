package store

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Cache is a [Store] in memory. Its [View] has the methods that read it: Get, All, Snapshot, Follow
// and the others. Pass &cache.View to code that may only read. The package documentation
// says what a Cache guarantees.
//
// Create one with [New]. All methods are safe for concurrent use.
type Cache[T any] struct {
	// View reads this cache. Do not assign to it.
	View[T]

	keyOf KeyFunc[T]
	// otherKeys is set once keyOf has returned another key than the namespace and the name of an object: the key of
	// a deletion without the last state then says nothing, and the UID decides.
	otherKeys atomic.Bool

	// writer serialises commits and protects the fields below it. The writer holds it while
	// KeyFuncs, index functions and followers run; readers never take it. Lock order: writer, then
	// loops.mu or trees, then mu.
	writer    sync.Mutex
	followers []*registration[T]
	budget    *Budget[T] // nil for none
	scratch   scratch[T]
	// absent has the states that WriteUnannounced deleted, because followers still know them; nil for none.
	absent map[Key]*entry[T]
	// unseen has the objects that WriteUnannounced added and that no follower knows yet; nil for none.
	unseen map[Key]bool

	// trees protects the trees: entries, epoch, indexes and their postings, and also the hash of each
	// entry. A commit holds it until its state is visible, and changes the table under it, so Has reads
	// the table under trees. Snapshot holds it while it copies the roots. All but epoch change only
	// under writer as well, so that the writer may read them without trees.
	trees   sync.Mutex
	entries entryTree // the objects in order
	indexes []*postings[T]
	epoch   uint64 // counts the snapshots

	// mu protects the fields below it, and the progress of the partitions. Only a holder of writer
	// changes them, so a writer reads them without mu. A large commit changes the table without mu,
	// because frozen sends readers to the state before; so each commit changes the table under trees as well,
	// for Has. The cache never holds mu while a user's function runs.
	mu         sync.RWMutex
	table      table[T] // the objects by key
	own        progress // of the writes to the cache itself
	partitions []*Partition[T]
	synced     bool
	generation uint64 // counts the commits
	// frozen is the state before a large commit, which readers see while it
	// changes the table; nil at other times.
	frozen *Snapshot[T]

	// current is the snapshot of the current state, or nil if none was made since the last commit.
	// It is cleared under mu, and set under trees and mu.
	current atomic.Pointer[Snapshot[T]]

	loops loops // of WatchKey
}

var _ BatchStore[any] = (*Cache[any])(nil)

// New returns an empty cache. keyOf derives the key of each object. New panics without a KeyFunc.
func New[T any](keyOf KeyFunc[T]) *Cache[T] {
	if keyOf == nil {
		panic("store: New needs a KeyFunc, such as store.ObjectKey")
	}
	c := &Cache[T]{
		keyOf:   keyOf,
		table:   table[T]{home: make(map[string]*nsMap[T]), clusters: make(map[space]*nsMap[T])},
		entries: newEntryTree(),
	}
	c.View.of = c
	return c
}

// resourceVersionLocked returns the version of the cache; empty with partitions. The caller holds mu or
// writer.
func (c *Cache[T]) resourceVersionLocked() string {
	if len(c.partitions) > 0 {
		return ""
	}
	return c.own.resourceVersion
}

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
func (v *View[T]) KeyOf(object T) (Key, error) { return v.of.keyFor(nil, object) }

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
	if s := c.current.Load(); s != nil {
		return s
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.current.Load(); s != nil {
		return s
	}
	s := &Snapshot[T]{
		of:              c,
		entries:         c.entries.copy(),
		resourceVersion: c.resourceVersionLocked(),
		synced:          c.synced,
		generation:      c.generation,
	}
	if len(c.indexes) > 0 {
		s.indexes = make([]postingTree, len(c.indexes))
		for i, x := range c.indexes {
			s.indexes[i] = x.tree.copy()
		}
	}
	c.epoch++
	c.current.Store(s)
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
	// The new follower knows all objects, so none is unseen any more. An earlier follower may therefore get
	// the deletion of an object that it never got.
	c.followers, c.unseen = append(c.followers, r), nil
	return func() {
		c.writer.Lock()
		defer c.writer.Unlock()
		if i := slices.Index(c.followers, r); i >= 0 {
			c.followers = slices.Delete(c.followers, i, i+1)
		}
	}
}

// progress is how far the writes to a cache, or to a partition, have come.
type progress struct {
	resourceVersion string
	synced          bool // there was a first list
	rejected        rejectedKeys
}

// forget makes the progress unknown until the next Replace.
func (p *progress) forget() { p.resourceVersion, p.synced = "", false }
