package store

import (
	"iter"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Cache is a [Store] in memory that is read as a [Reader]. Its reads are of one
// committed state, in the order of keys; a walk runs on a snapshot and takes no
// lock while it lasts. See the package documentation for what it guarantees.
//
// Create one with [New]. All methods are safe for concurrent use.
type Cache[T any] struct {
	keyOf KeyFunc[T]
	// versioned is false if no T can have a UID or a resource version.
	versioned bool
	// carries is true once an entry had a version that its object does not tell.
	carries atomic.Bool

	// writer serialises commits and protects the fields below it. It is held
	// while KeyFuncs, index functions and followers run; readers never take it.
	// Lock order: writer, then watches.mu or trees, then mu.
	writer    sync.Mutex
	followers []*registration[T]
	budget    *Budget[T] // nil for none
	scratch   scratch[T]

	// trees protects the trees: entries, epoch, indexes and their postings. A
	// commit holds it while it changes them, Snapshot while it copies their roots.
	// All but epoch change only under writer as well, so that the writer may read
	// them without trees.
	trees   sync.Mutex
	entries entryTree // the objects in order
	indexes []*postings[T]
	epoch   uint64 // counts the snapshots

	// mu protects the fields below it, and the progress of the partitions. They
	// change only under both locks, so that the writer may read them without mu.
	// It is held for lookups and mutations alone, never while code of a user runs.
	mu         sync.RWMutex
	table      table[T]      // the objects by key
	whole      *Partition[T] // what is written to the cache itself
	partitions []*Partition[T]
	complete   bool
	generation uint64 // counts the commits
	// frozen is the state before a large commit, which readers see while it
	// changes the table; nil at other times.
	frozen *Snapshot[T]

	// published is the snapshot of the current state, or nil if nobody has
	// asked for it since the last commit. Writing requires mu; a snapshot is
	// written only under trees as well.
	published atomic.Pointer[Snapshot[T]]

	watches watches[T]
}

var (
	_ BatchStore[any] = (*Cache[any])(nil)
	_ Reader[any]     = (*Cache[any])(nil)
	_ Indexable[any]  = (*Cache[any])(nil)
)

// New returns an empty cache of objects that keyOf gives their keys. It panics without a KeyFunc.
func New[T any](keyOf KeyFunc[T]) *Cache[T] {
	if keyOf == nil {
		panic("store: New needs a KeyFunc, such as store.ObjectKey")
	}
	c := &Cache[T]{
		keyOf:     keyOf,
		versioned: mayHaveVersion[T](),
		table:     newTable[T](),
		entries:   newEntryTree(),
	}
	c.whole = &Partition[T]{of: c}
	return c
}

// mayHaveVersion reports whether a T can tell its UID or its resource version.
func mayHaveVersion[T any]() bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Interface ||
		t.Implements(reflect.TypeFor[interface{ GetUID() types.UID }]()) ||
		t.Implements(reflect.TypeFor[interface{ GetResourceVersion() string }]())
}

// View returns the cache for hands that may only read it.
func (c *Cache[T]) View() *View[T] { return &View[T]{of: c} }

// Get implements [Reader].
func (c *Cache[T]) Get(key Key) (T, bool) {
	c.mu.RLock()
	if before := c.frozen; before != nil {
		c.mu.RUnlock()
		return before.search(key)
	}
	object, ok := c.table.get(key)
	c.mu.RUnlock()
	return object, ok
}

// held returns what is known of the version of the object that is held under a
// key, and whether there is one. It is for readers.
func (c *Cache[T]) held(key Key) (Version, bool) {
	if !c.carries.Load() {
		return versionOfHeld(c, key)
	}
	return c.Snapshot().entry(key).held()
}

// heldByWriter is held for whoever holds writer: it makes no snapshot, which the next commit would
// have to copy the trees for.
func (c *Cache[T]) heldByWriter(key Key) (Version, bool) {
	if !c.carries.Load() {
		return versionOfHeld(c, key)
	}
	return c.table.entry(key).held()
}

// versionOfHeld returns what an object that is held tells of its version.
func versionOfHeld[T any](c *Cache[T], key Key) (version Version, ok bool) {
	object, ok := c.Get(key)
	if ok && c.versioned {
		version = VersionOf(object)
	}
	return version, ok
}

// All implements [Reader]: it iterates over the state that is current when the
// iteration begins.
func (c *Cache[T]) All() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) { c.Snapshot().All()(yield) }
}

// Namespace implements [Reader]: it iterates over the state that is current when
// the iteration begins.
func (c *Cache[T]) Namespace(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) { c.Snapshot().Namespace(namespace)(yield) }
}

// ResourceVersion implements [Store] and [Reader]. A cache with partitions has no
// version of its own, so it is empty: each [Partition] has one.
func (c *Cache[T]) ResourceVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.resourceVersionLocked()
}

func (c *Cache[T]) resourceVersionLocked() string {
	if len(c.partitions) > 0 {
		return ""
	}
	return c.whole.resourceVersion
}

// Len implements [Reader].
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.frozen != nil {
		return c.frozen.Len()
	}
	return c.table.len
}

// Snapshot returns the current state. It costs a walk nothing to use the cache
// instead: All, Namespace and the like take a snapshot by themselves.
func (c *Cache[T]) Snapshot() *Snapshot[T] {
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

// resyncChunk is how many changes a commit of a resync has at most.
const resyncChunk = 1024

// Resync hands every object to one follower once more, as a Modification of
// origin [Resync] whose Prior and Object are the same, in as many commits as it
// takes. It changes nothing and tells no other follower. All of them come between
// two commits of the cache, so that no change can overtake them; writers wait
// until then. An event-queue collection resyncs with it.
func (c *Cache[T]) Resync(follower Follower[T]) {
	c.writer.Lock()
	defer c.writer.Unlock()
	state := c.Snapshot()
	changes := make([]Change[T], 0, min(resyncChunk, state.Len()))
	hand := func() {
		follower.Commit(&Commit[T]{
			Origin:          Resync,
			Synced:          state.complete,
			ResourceVersion: state.resourceVersion,
			Changes:         changes,
		})
		changes = changes[:0]
	}
	state.entries.scan(func(h *header) bool {
		if len(changes) == resyncChunk {
			hand()
		}
		e := entryOf[T](h)
		again := e.addition()
		again.Type, again.Prior = Modification, e.object
		changes = append(changes, again)
		return true
	})
	hand()
}

// Follow tells a follower the current state and from then on every commit,
// until stop has been called. When stop returns, no call is running and none
// will come. It may be called more than once, but not from the follower itself.
func (c *Cache[T]) Follow(follower Follower[T]) (stop func()) {
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

// registration gives each call of Follow an identity: followers need not be
// comparable, and one may be registered twice.
type registration[T any] struct{ follower Follower[T] }

func (c *Cache[T]) cache() *Cache[T] { return c }
