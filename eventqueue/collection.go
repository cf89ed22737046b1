package eventqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Collection holds the event queues of many objects and hands them out, one
// object at a time, in the order in which something first happened to them. See
// the package documentation for what it guarantees.
//
// Create one with [New], [Follow] or [FollowFiltered]. All methods are safe for concurrent use.
type Collection[T any] struct {
	options
	cache    *store.Cache[T]
	follower follower[T]
	unfollow func()

	// wake holds a token while somebody who waits may find a queue to take.
	// Whoever takes one and leaves another puts the token back.
	wake   chan struct{}
	closed chan struct{}
	synced chan struct{}

	owned bool // cache is the collection's own
	// ended is true once the collection is closed: what closed says, cheaper.
	ended atomic.Bool
	// waiters is how many wait for wake. It is written under mu.
	waiters atomic.Int32
	inbox   inbox[T]

	// mu protects the fields below it: see lock. Commits take it inside the cache's
	// writer lock, if they have to; whoever consumes takes it alone. It is never held
	// while code of a user runs, but for a Compactor.
	mu        sync.Mutex
	keys      lines[T] // of every key that waits or is out
	spare     spare[T]
	unused    unused[T]
	ready     [2]line[T] // the rings of those that can be taken: see class
	turns     uint8      // how often the first ring went before the second one
	listed    bool       // the first list is known
	passes    uint64     // how often the turn of a key came while that was out
	delayed   delayed[T]
	timer     *time.Timer // fires when the first of delayed is due
	tidy      *time.Timer // fires when memory may be given back; nil if there is little
	compactor Compactor[T]
	counters  counters
	ages      ages[T]
	unsynced  int // keys of the first list that were not settled yet

	draining int           // how many drain
	idle     chan struct{} // closed when nothing is ready or out; nil if nobody waits
}

var _ store.BatchStore[any] = (*Collection[any])(nil)

// New returns an empty collection with a cache of its own, for objects that
// keyOf gives their keys: a [store.Store] for a reflector to fill.
func New[T any](keyOf store.KeyFunc[T], opts ...Option) *Collection[T] {
	c := Follow(store.New(keyOf), opts...)
	c.owned = true
	return c
}

// Follow returns a collection of what happens in a cache from now on, beginning
// with an Addition for each object that the cache holds. Writing to the
// collection itself fails with [ErrReadOnly]. [Collection.Close] stops following.
func Follow[T any](cache *store.Cache[T], opts ...Option) *Collection[T] {
	return follow(cache, nil, opts)
}

// follow is FollowFiltered, for which a nil keep keeps everything.
func follow[T any](cache *store.Cache[T], keep func(T) bool, opts []Option) *Collection[T] {
	c := &Collection[T]{
		options: newOptions(opts),
		cache:   cache,
		wake:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
		synced:  make(chan struct{}),
	}
	c.emptyRings()
	c.follower.of = c
	c.inbox.merging = c.compaction != KeepAll
	if keep != nil {
		c.follower.filter = &filter[T]{keep: keep}
	}
	c.unfollow = cache.Follow(&c.follower)
	return c
}

// Cache returns the cache that the collection's events come from, for reading.
func (c *Collection[T]) Cache() *store.View[T] { return &c.cache.View }

// Len returns the number of keys that wait or are out.
func (c *Collection[T]) Len() int {
	c.lock()
	defer c.mu.Unlock()
	return c.keys.len
}

// Resync queues a Modification of origin Resync, with the same Prior and Object,
// for every object of the cache that has no events waiting.
func (c *Collection[T]) Resync() { c.cache.Resync(&c.follower) }

// Close ends the collection for good: nothing more is queued, and whoever waits
// for a queue gets [ErrClosed]. It does not wait for a commit that runs: the collection
// ignores the commit, and the cache forgets the collection after it. Queues that are
// out may still be settled, to no effect. It may be called more than once, and from a
// handler.
func (c *Collection[T]) Close() {
	if c.ended.Swap(true) { // before mu, so that a commit that holds it stops queueing
		return
	}
	c.mu.Lock()
	close(c.closed)
	for _, timer := range []*time.Timer{c.timer, c.tidy} {
		if timer != nil {
			timer.Stop()
		}
	}
	c.ages.close()
	c.inbox.close()
	c.keys, c.spare, c.unused, c.delayed = lines[T]{}, spare[T]{}, unused[T]{}, nil
	c.counters.close()
	c.emptyRings()
	c.wakeDrainersLocked()
	c.mu.Unlock()
	// A commit holds the lock that this takes until all its followers have heard of
	// it. What the follower hears from now on, it ignores.
	go c.unfollow()
}

func (c *Collection[T]) isClosed() bool { return c.ended.Load() }

var begin = time.Now()

// now returns the time, counted from some begin, as that takes less memory.
func now() time.Duration { return time.Since(begin) }

// regulateLocked opens the inbox if nothing that others wait for can come about by an
// event alone, and else closes it: whoever closes it sorts in. Somebody may wait for the
// end of the first list or of a drain, which a deletion can bring, and a compactor is to
// be asked as events come.
func (c *Collection[T]) regulateLocked() {
	c.inbox.setOpen(c.listed && c.unsynced == 0 && c.draining == 0 && c.compactor == nil && !c.isClosed())
}

// lock locks mu, and sorts in what commits have left.
func (c *Collection[T]) lock() {
	c.mu.Lock()
	if c.inbox.nonEmpty.Load() {
		c.sortInLocked()
	}
}
