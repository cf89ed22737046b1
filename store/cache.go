package store

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// Cache is a [Store] in memory that is read as a [Reader]. Its reads are of one
// committed state, in the order of keys; a walk runs on a snapshot and takes no
// lock while it lasts. See the package documentation for what it guarantees.
//
// Create one with [New]. All methods are safe for concurrent use.
type Cache[T any] struct {
	keyOf KeyFunc[T]

	// writer serialises commits and protects the fields below it. It is held
	// while KeyFuncs, index functions and followers run; readers never take it.
	// Lock order: writer, then mu.
	writer    sync.Mutex
	followers []*registration[T]
	lacking   lacking

	// mu protects the fields below it. They change only under both locks, so
	// that the writer may read them without mu. It is held for lookups and
	// edits alone, never while code of a user runs.
	mu              sync.RWMutex
	objects         map[Key]*entry[T]
	entries         *btree.BTreeG[*entry[T]] // the same, in order
	indexes         []index[T]
	resourceVersion string
	complete        bool

	// published is the snapshot of the current state, or nil if nobody has
	// asked for it since the last commit. Writing requires mu.
	published atomic.Pointer[Snapshot[T]]
}

var (
	_ LackingStore[any] = (*Cache[any])(nil)
	_ Reader[any]       = (*Cache[any])(nil)
	_ Indexable[any]    = (*Cache[any])(nil)
)

// New returns an empty cache of objects that keyOf gives their keys. Without a
// KeyFunc every write is rejected with [ErrNoKeyFunc].
func New[T any](keyOf KeyFunc[T]) *Cache[T] {
	return &Cache[T]{
		keyOf:   keyOf,
		objects: make(map[Key]*entry[T]),
		entries: btree.NewBTreeGOptions(lessEntry[T], btree.Options{NoLocks: true}),
	}
}

// View returns the cache for hands that may only read it.
func (c *Cache[T]) View() *View[T] { return &View[T]{of: c} }

// Get implements [Reader].
func (c *Cache[T]) Get(key Key) (T, bool) {
	c.mu.RLock()
	e, ok := c.objects[key]
	c.mu.RUnlock()
	if !ok {
		var none T
		return none, false
	}
	return e.object, true
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

// ResourceVersion implements [Store] and [Reader].
func (c *Cache[T]) ResourceVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.resourceVersion
}

// Len implements [Reader].
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.objects)
}

// Snapshot returns the current state. It costs a walk nothing to use the cache
// instead: All and Namespace take a snapshot by themselves.
func (c *Cache[T]) Snapshot() *Snapshot[T] {
	if s := c.published.Load(); s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.published.Load(); s != nil {
		return s
	}
	s := &Snapshot[T]{
		entries:         c.entries.Copy(),
		resourceVersion: c.resourceVersion,
		complete:        c.complete,
	}
	for _, x := range c.indexes {
		s.indexes = append(s.indexes, x.publish())
	}
	c.published.Store(s)
	return s
}

// Add implements [Store]. Adding under a key that is held is a Modification, or
// a Deletion and an Addition if the UIDs differ.
func (c *Cache[T]) Add(object T) error { return c.put(object) }

// Update implements [Store]. Updating under a key that is not held is an
// Addition.
func (c *Cache[T]) Update(object T) error { return c.put(object) }

func (c *Cache[T]) put(object T) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	e, err := c.prepare(object)
	if err != nil {
		c.lacking.add(e.key)
		return rejectedError([]Rejection{{Key: e.key, Version: e.version, Err: err}})
	}
	c.lacking.remove(e.key)
	c.commit(step[T]{
		origin:          Watch,
		edits:           []edit[T]{{old: c.objects[e.key], new: e}},
		resourceVersion: e.version.ResourceVersion,
	})
	return nil
}

// Delete implements [Store].
func (c *Cache[T]) Delete(object T) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	key, version, err := c.identify(object)
	if err != nil {
		c.lacking.add(key)
		return rejectedError([]Rejection{{Version: version, Err: err}})
	}
	c.lacking.remove(key)
	s := step[T]{origin: Watch, resourceVersion: version.ResourceVersion}
	if old := c.objects[key]; old != nil {
		s.edits = []edit[T]{{old: old, final: &entry[T]{object: object, version: version}}}
	}
	c.commit(s)
	return nil
}

// DeleteKey implements [Store]. It does not move the resource version, because
// it is not told any: a [Cache.Bookmark] does.
func (c *Cache[T]) DeleteKey(key Key) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	c.lacking.remove(key)
	if old := c.objects[key]; old != nil {
		c.commit(step[T]{origin: Watch, edits: []edit[T]{{old: old}}})
	}
	return nil
}

// Replace implements [Store]. An object that the cache holds with the same UID
// and resource version stays as it is, pointer included, and is no change.
//
// An object that is rejected keeps its old value, if its key is known or if one
// with its UID is held.
func (c *Cache[T]) Replace(objects []T, resourceVersion string) error {
	return c.ReplaceExcept(objects, nil, resourceVersion)
}

// Lack implements [LackingStore].
func (c *Cache[T]) Lack(rejection Rejection) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	c.lacking.add(rejection.Key)
	return rejectedError([]Rejection{rejection})
}

// ReplaceExcept implements [LackingStore].
func (c *Cache[T]) ReplaceExcept(objects []T, absent []Rejection, resourceVersion string) error {
	c.writer.Lock()
	defer c.writer.Unlock()

	rejections := slices.Clone(absent)
	var missing lacking
	for _, r := range absent {
		missing.add(r.Key)
	}
	kept := make(map[types.UID]bool) // UIDs of rejected objects without a key
	listed := make(map[Key]*entry[T], len(objects))
	order := make([]Key, 0, len(objects))
	for _, object := range objects {
		e, err := c.prepare(object)
		if err != nil {
			rejections = append(rejections, Rejection{Key: e.key, Version: e.version, Err: err})
			missing.add(e.key)
			if e.key == (Key{}) && e.version.UID != "" {
				kept[e.version.UID] = true
			}
			continue
		}
		if _, twice := listed[e.key]; !twice {
			order = append(order, e.key)
		}
		listed[e.key] = e
	}

	s := step[T]{
		origin:          List,
		initial:         !c.complete,
		resourceVersion: resourceVersion,
		replaced:        true,
	}
	for old := range c.Snapshot().heldEntries() {
		key := old.key
		if listed[key] == nil && !missing.keys[key] && !kept[old.version.UID] {
			s.edits = append(s.edits, edit[T]{old: old})
		}
	}
	for _, key := range order {
		old, e := c.objects[key], listed[key]
		if old == nil || !old.version.Equal(e.version) {
			s.edits = append(s.edits, edit[T]{old: old, new: e})
		}
	}
	c.lacking = missing
	c.commit(s)
	return rejectedError(rejections)
}

// Bookmark implements [Store].
func (c *Cache[T]) Bookmark(resourceVersion string) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	c.commit(step[T]{origin: Watch, resourceVersion: resourceVersion})
	return nil
}

// Resync hands every object to one follower once more, as a Modification of
// origin [Resync] whose Prior and Object are the same. It changes nothing and
// tells nobody else. It is the door through which an event-queue collection
// resyncs: between two commits, so that no change can overtake it.
func (c *Cache[T]) Resync(follower Follower[T]) {
	c.writer.Lock()
	defer c.writer.Unlock()
	state := c.Snapshot()
	commit := &Commit[T]{
		Origin:          Resync,
		ResourceVersion: state.resourceVersion,
		Changes:         make([]Change[T], 0, state.Len()),
	}
	for e := range state.heldEntries() {
		again := e.addition()
		again.Type, again.Prior = Modification, e.object
		commit.Changes = append(commit.Changes, again)
	}
	follower.Commit(commit)
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
		c.followers = slices.DeleteFunc(c.followers, func(f *registration[T]) bool { return f == r })
	}
}

// registration gives each call of Follow an identity: followers need not be
// comparable, and one may be registered twice.
type registration[T any] struct{ follower Follower[T] }

func (c *Cache[T]) cache() *Cache[T] { return c }

// lacking is what a cache was told and could not take in: while there is any, its
// resource version must not move past it. Guarded by Cache.writer.
type lacking struct {
	keys    map[Key]bool
	unnamed bool // there was at least one without a key
}

func (l *lacking) add(key Key) {
	if key == (Key{}) {
		l.unnamed = true
		return
	}
	if l.keys == nil {
		l.keys = make(map[Key]bool)
	}
	l.keys[key] = true
}

func (l *lacking) remove(key Key) { delete(l.keys, key) }

func (l *lacking) any() bool { return l.unnamed || len(l.keys) > 0 }
