package eventqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Collection holds the event queues of many objects. It hands them out one object at a time, in the
// order of their first events. The package documentation lists its guarantees.
//
// Create a collection with [New], [Follow] or [FollowFiltered]. All methods are safe for concurrent
// use.
type Collection[T any] struct {
	options
	cache    *store.Cache[T]
	follower follower[T]
	unfollow func()

	synced chan struct{}

	owned  bool          // cache is the collection's own
	ended  atomic.Bool   // the collection is closed
	closed chan struct{} // closed by Close
	// eager is not 0 while a caller waits for an effect of an event itself, as Synced and Drain do: a
	// deletion can complete them. Writers then queue events instead of buffering them.
	eager  atomic.Int32
	buffer buffer[T]
	// sleeping is the number of consumers that sleep and were not signalled. It is written under mu.
	sleeping atomic.Int32
	keep     atomic.Pointer[func(Event[T]) bool] // the predicate of KeepIf; nil if there is none

	// mu protects the fields below it: see lock. A commit may take it inside the cache's writer
	// lock; consumers take it alone. No user code runs under it.
	mu       sync.Mutex
	wake     sync.Cond   // consumers sleep here
	patience int         // how often a consumer yields before it sleeps
	naps     uint8       // how often a consumer slept without yielding
	keys     keyTable[T] // the states of all keys that wait or are out
	free     *sync.Pool  // of unused states
	ready    [2]place[T] // the rings of the keys that can be taken: see ringOf
	turns    uint8       // how often the first ring came before the second one
	listed   bool        // the first list is known
	passes   uint64      // how often the turn of a key came while the key was out
	delayed  delayed[T]
	timer    *time.Timer // fires when the first of delayed is due
	counters Stats       // without Keys, Delayed and Oldest
	unsynced int         // keys of the first list that are not settled yet

	idle chan struct{} // closed when nothing is ready or out; nil if no Drain waits
}

var _ store.BatchStore[any] = (*Collection[any])(nil)

// New returns an empty collection with a cache of its own. The function keyOf returns the key of an
// object. The collection is a [store.Store] that a reflector fills.
func New[T any](keyOf store.KeyFunc[T], opts ...Option) *Collection[T] {
	c := Follow(store.New(keyOf), opts...)
	c.owned = true
	return c
}

// Follow returns a collection of the events of a cache from now on. It begins with an Addition for
// each object that the cache holds. Writing to the collection itself fails with [ErrReadOnly].
// [Collection.Close] stops following.
func Follow[T any](cache *store.Cache[T], opts ...Option) *Collection[T] {
	return FollowFiltered(cache, nil, opts...)
}

// FollowFiltered is [Follow] for the objects for which keep returns true. If keep returns false for
// the prior state of an object and true for the new one, the collection queues an Addition. In the
// opposite case, it queues a Deletion whose Object is the prior state. The collection queues no
// events for other objects.
//
// The function keep must be pure and depend on the object alone. The collection calls it again for
// the prior state of an object and needs the same answer. The function runs under the lock of the
// cache's writer, so it must be quick. It must not write to the cache, use the collection, or call
// [runtime.Goexit]. If keep panics on an object, the collection treats the object as rejected.
// Consumers that know the object then get a Deletion, and [Collection.Stats] reports the panic. A
// nil keep keeps all objects.
func FollowFiltered[T any](cache *store.Cache[T], keep func(T) bool, opts ...Option) *Collection[T] {
	c := &Collection[T]{
		options: newOptions(opts),
		cache:   cache,
		synced:  make(chan struct{}),
		closed:  make(chan struct{}),
		free:    freeList[T](),
	}
	c.wake.L = &c.mu
	c.eager.Store(1) // until Synced
	c.emptyRings()
	c.follower = follower[T]{of: c, keep: keep}
	c.unfollow = cache.Follow(&c.follower)
	return c
}

// Cache returns a read-only view of the cache from which the collection's events come.
func (c *Collection[T]) Cache() *store.View[T] { return &c.cache.View }

// Len returns the number of keys that wait or are out.
func (c *Collection[T]) Len() int {
	c.lock()
	defer c.mu.Unlock()
	return c.keys.len
}

// Resync queues a Modification of origin Resync for every object of the cache that has no waiting
// events. Its Prior and its Object are the same. Writers of the cache wait meanwhile.
func (c *Collection[T]) Resync() { c.cache.Follow(resync[T]{&c.follower})() }

// Close ends the collection for good: it queues no more events, and callers that wait for a queue
// get [ErrClosed]. Close does not wait for a running commit. The collection ignores that commit,
// and the cache drops the collection after it. Settling a queue that is still out has no effect.
// Close may be called more than once, and from a handler.
func (c *Collection[T]) Close() {
	if c.ended.Swap(true) { // before mu, so that a commit that holds it stops queueing
		return
	}
	close(c.closed)
	c.eager.Add(1) // a commit that runs must not leave events in the buffer
	c.mu.Lock()
	c.sleeping.Store(0)
	c.wake.Broadcast()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.queueBufferedLocked() // drops the events
	for k := range c.keys.all() {
		if k.out != nil {
			k.out.state = nil // its holder must not keep all others in memory
		}
	}
	c.keys, c.delayed = keyTable[T]{}, nil
	c.counters.Waiting, c.counters.InFlight, c.counters.Events = 0, 0, 0
	c.emptyRings()
	c.wakeDrainersLocked()
	c.mu.Unlock()
	// A commit holds the lock that unfollow takes until all followers have processed the commit.
	// The follower ignores every commit from now on.
	go c.unfollow()
}

// IsClosed reports whether [Collection.Close] was called.
func (c *Collection[T]) IsClosed() bool { return c.ended.Load() }

var begin = time.Now()

// now returns the time since begin. A duration takes less memory than a time.Time.
func now() time.Duration { return time.Since(begin) }
