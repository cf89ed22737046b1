package store

import (
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

	// writer serialises commits and protects the fields below it. The writer holds it while
	// KeyFuncs, index functions and followers run; readers never take it. Lock order: writer, then
	// watches.mu or trees, then mu.
	writer    sync.Mutex
	followers []*registration[T]
	budget    *Budget[T] // nil for none
	scratch   scratch[T]

	// trees protects the trees: entries, epoch, indexes and their postings. A commit holds it until
	// its state is visible. Snapshot holds it while it copies their roots. All but epoch change only
	// under writer as well, so that the writer may read them without trees.
	trees   sync.Mutex
	entries entryTree // the objects in order
	indexes []*postings[T]
	epoch   uint64 // counts the snapshots

	// mu protects the fields below it, and the progress of the partitions. They change only under
	// both locks, so that the writer may read them without mu. The cache holds mu only for lookups
	// and mutations, never while a user's function runs.
	mu         sync.RWMutex
	table      table[T]      // the objects by key
	whole      *Partition[T] // the partition for writes to the cache itself
	partitions []*Partition[T]
	complete   bool
	generation uint64 // counts the commits
	// frozen is the state before a large commit, which readers see while it
	// changes the table; nil at other times.
	frozen *Snapshot[T]

	// published is the snapshot of the current state, or nil if none was made since the last commit.
	// Writing requires mu; a snapshot is written only under trees as well.
	published atomic.Pointer[Snapshot[T]]

	watches watches
}

var _ BatchStore[any] = (*Cache[any])(nil)

// New returns an empty cache. keyOf derives the key of each object. New panics without a KeyFunc.
func New[T any](keyOf KeyFunc[T]) *Cache[T] {
	if keyOf == nil {
		panic("store: New needs a KeyFunc, such as store.ObjectKey")
	}
	c := &Cache[T]{
		keyOf:   keyOf,
		table:   newTable[T](),
		entries: newEntryTree(),
	}
	c.View.of = c
	c.whole = &Partition[T]{of: c}
	return c
}

func (c *Cache[T]) resourceVersionLocked() string {
	if len(c.partitions) > 0 {
		return ""
	}
	return c.whole.resourceVersion
}

// registration gives each call of Follow an identity: followers need not be comparable, and a
// caller may register one twice.
type registration[T any] struct{ follower Follower[T] }

// Add implements [Store]. If the cache holds an object under the key, the change is a Modification,
// or a Deletion and an Addition if the UIDs differ. There is no change if the cache holds the same
// version with the same content: see [EqualContent].
func (c *Cache[T]) Add(object T) error { return c.whole.Add(object) }

// Update implements [Store]. If the cache holds no object under the key, the change is an Addition.
func (c *Cache[T]) Update(object T) error { return c.whole.Update(object) }

// Delete implements [Store].
func (c *Cache[T]) Delete(object T) error { return c.whole.Delete(object) }

// DeleteKey implements [Store]. It does not move the resource version: use [Cache.Bookmark] for that.
func (c *Cache[T]) DeleteKey(key Key) error { return c.whole.DeleteKey(key) }

// Replace implements [Store]. An object that the cache holds with the same UID, resource version and
// content keeps its pointer, and the commit has no change for it.
//
// The cache keeps the old state of a rejected object, if it knows the key or holds an object with
// the UID.
func (c *Cache[T]) Replace(objects []T, resourceVersion string) error {
	return c.whole.Replace(objects, resourceVersion)
}

// Bookmark implements [Store].
func (c *Cache[T]) Bookmark(resourceVersion string) error { return c.whole.Bookmark(resourceVersion) }

// BeginBatch implements [BatchStore].
func (c *Cache[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	if self != Store[T](c) {
		return nil
	}
	return c.whole.BeginBatch(c.whole, replace)
}

// Has implements [BatchStore].
func (c *Cache[T]) Has(key Key, version Version, hash uint64) bool {
	return c.whole.Has(key, version, hash)
}
