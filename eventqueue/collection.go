package eventqueue

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// This is how an event gets from a writer to a consumer that sleeps. Informers may have many handlers:
// a commit must reach up to 1,000 collections while the writer holds the lock of the cache. In all it
// takes 0.3 µs of CPU time for each of 100 handlers, where client-go takes 0.6 µs
// (docs/reference/performance.md).
//
//  1. follower.Commit makes the event once for all collections of the cache that take every event, and
//     puts a pointer to it into the buffer of each. So the writer touches nothing that consumers
//     change, such as mu, the map of keys and the rings.
//  2. A buffer has room for 64 events, so that a writer runs ahead a little, and not by a million
//     events. If it is full, the writer yields the CPU once. If it is still full, the writer locks mu
//     and queues the events itself, so that it never waits for a handler. It does the same for a commit
//     of more than 64 events, and for an event of the key that came last, so that the two merge.
//  3. Each caller of lockAndQueue first queues what the buffer holds, in order, by
//     enqueueLocked. Consumers therefore see the state that they would see without a buffer.
//  4. A consumer without work yields the CPU, 1 to 16 times, before it sleeps, because waking it costs
//     the writer more. With yields, an event that comes alone takes 2.9 µs of CPU time, and 3.4 µs
//     without (lower quartiles of ten alternating runs on a loaded machine).
//  5. A consumer that goes to sleep first counts itself in sleeping, and then looks at the buffer again.
//     A writer first fills the buffer, and then looks at sleeping. So at least one sees the other:
//     either the consumer stays awake, or the writer locks mu to signal. The consumer holds mu until
//     it sleeps, so the signal cannot come too early.
//  6. A writer signals one consumer, which signals the next one if it leaves work behind.
//
// A buffered event waits until a caller of lockAndQueue queues it. Callers of Synced and Drain cannot wait
// for that: a deletion in the buffer may be what they wait for while every consumer is busy. And a commit
// that runs during Close must leave nothing behind in the buffer. So while bypass is not 0, writers lock mu
// themselves.

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

	owned    bool          // cache is the collection's own
	isClosed atomic.Bool   // set by Close, and then closed is closed
	closed   chan struct{} // for those who wait

	buffer buffer[T]
	// bypass is the number of reasons for which writers do not leave events in the buffer: the first
	// list is not settled, a Drain waits, the collection is closed.
	bypass atomic.Int32
	// sleeping is the number of consumers that sleep and were not signalled. It is written under mu.
	sleeping atomic.Int32
	// held is the number of queues that Hold keeps out.
	held   atomic.Int32
	keepIf atomic.Pointer[func(Event[T]) bool] // the predicate of KeepIf; nil if there is none

	// mu protects the fields below it: see lockAndQueue. A commit may take it inside the cache's writer
	// lock; consumers take it alone. No user code runs under it.
	mu       sync.Mutex
	wake     sync.Cond                  // consumers sleep here
	yields   int                        // how often a consumer yields before it sleeps
	keys     map[store.Key]*keyState[T] // the states of all keys that wait or are out
	mostKeys int                        // the largest number of keys since the map of keys was made
	free     *sync.Pool                 // of unused states
	ready    [2]turn[T]                 // the rings of the keys that can be taken: see ringOf
	turns    uint8                      // turns of the first ring since one of the second, while both had keys
	passes   uint64                     // counts the keys whose turn came while they were out; orders turn.passed
	delayed  delayed[T]                 // the keys that are not ready before some time
	timer    *time.Timer                // fires when the first of delayed is due
	counters Stats                      // without Keys, Delayed, Held and Oldest
	unsynced int                        // what Synced waits for: the first list, then its keys that are not settled

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
		options:  newOptions(opts),
		cache:    cache,
		synced:   make(chan struct{}),
		closed:   make(chan struct{}),
		free:     freeStates[T](),
		unsynced: 1,
	}
	c.wake.L = &c.mu
	c.bypass.Store(1) // until Synced
	c.emptyRings()
	c.follower = follower[T]{collection: c, accepts: keep}
	c.unfollow = cache.Follow(&c.follower)
	return c
}

// Option configures a [Collection].
type Option interface{ apply(*options) }

type options struct {
	compaction Compaction
	backoff    backoff
	priority   bool
	observer   func(TakeInfo) // nil if there is none
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{compaction: KeepLatest, priority: true, backoff: backoff{base: 100 * time.Millisecond, limit: time.Minute}}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// Cache returns a read-only view of the cache from which the collection's events come.
func (c *Collection[T]) Cache() *store.View[T] { return &c.cache.View }

// Len returns the number of keys that wait or are out.
func (c *Collection[T]) Len() int {
	c.lockAndQueue()
	defer c.mu.Unlock()
	return len(c.keys)
}

// Resync queues a Modification of origin Resync for every object of the cache that has no waiting
// events. Its Prior and its Object are the same. Writers of the cache wait meanwhile.
func (c *Collection[T]) Resync() { c.cache.Follow(resync[T]{&c.follower})() }

// Close ends the collection for good: it queues no more events, and callers that wait for a queue
// get [ErrClosed]. Close does not wait for a running commit. The collection ignores that commit,
// and the cache drops the collection after it. Settling a queue that is still out has no effect.
// Close may be called more than once, and from a handler.
func (c *Collection[T]) Close() {
	if c.isClosed.Swap(true) { // before mu, so that a commit that holds it stops queueing
		return
	}
	close(c.closed)
	c.bypass.Add(1) // a commit that runs must not leave events in the buffer
	c.mu.Lock()
	c.sleeping.Store(0)
	c.wake.Broadcast()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.queueBufferedLocked() // drops the events
	for _, k := range c.keys {
		if k.out != nil {
			k.out.state = nil // its holder must not keep all others in memory
		}
	}
	c.keys, c.delayed = nil, nil
	c.counters.Waiting, c.counters.InFlight, c.counters.Events = 0, 0, 0
	c.emptyRings()
	c.wakeDrainersLocked()
	c.mu.Unlock()
	// A commit holds the lock that unfollow takes until all followers have processed the commit.
	// The follower ignores every commit from now on.
	go c.unfollow()
}

// IsClosed reports whether [Collection.Close] was called.
func (c *Collection[T]) IsClosed() bool { return c.isClosed.Load() }

// lockAndQueue locks mu and queues the events that commits left in the buffer.
func (c *Collection[T]) lockAndQueue() {
	c.mu.Lock()
	c.queueBufferedLocked()
}

func (c *Collection[T]) queueBufferedLocked() {
	for !c.buffer.empty() {
		if a := c.buffer.take(); !c.IsClosed() {
			c.enqueueLocked(a)
		}
	}
}

// enqueueLocked makes an event wait: it merges the event with the waiting events of its key, and gives
// the key a turn if it has none.
func (c *Collection[T]) enqueueLocked(a *arrival[T]) {
	r := &a.record
	k := c.stateLocked(r.Key)
	if k.out != nil && !k.waits() && r.Origin == Resync {
		c.counters.Merged++ // the handler is working on this very state
		return
	}
	if !c.joinLocked(k, r, a.came) {
		return
	}
	if r.Origin != Resync && k.mayHasten() {
		c.delayed.remove(k)
	}
	if k.heapIndex < 0 {
		c.readyLocked(k)
	}
}

// joinLocked adds an event that came at the given time to the waiting events of a key, and reports
// whether any remains.
func (c *Collection[T]) joinLocked(k *keyState[T], r *record[T], came time.Duration) bool {
	b := &k.waiting
	if !k.waits() {
		b.events, b.since = b.first[:0], came
		c.counters.Waiting++
	}
	b.since = min(b.since, came) // AddAfter may have delayed the key
	if !b.live && r.live() {
		b.live = true
		c.reclassLocked(k)
	}
	c.counters.Events++
	total := len(b.events) + 1
	next := *r
	next.keptApart = next.keptApart || c.policy() == KeepAll
	events, dropped := mergeNext(b.events, next)
	return c.resizedLocked(k, events, total, dropped)
}

// resizedLocked stores the waiting events of a key after a merge, and reports whether any remains. The
// statistics still count all events before the merge; total is their number.
func (c *Collection[T]) resizedLocked(k *keyState[T], events []record[T], total, dropped int) bool {
	c.counters.Events -= total - len(events)
	merged := total - len(events) - dropped
	c.counters.Merged += uint64(merged)
	k.waiting.merged += int32(merged)
	c.counters.Dropped += uint64(dropped)
	k.waiting.set(events)
	if len(events) > 0 {
		return true
	}
	// Forget the key unless its queue is out.
	k.unlink()
	c.delayed.remove(k) // a queue can fail before its first event is handed over
	c.counters.Waiting--
	if k.waiting.initial {
		c.initialSettledLocked()
	}
	k.waiting = backlog[T]{}
	c.forgetLocked(k)
	return false
}

// keyState is the state of one key: the events that wait for the next Queue, and the Queue that is
// out. Guarded by Collection.mu.
type keyState[T any] struct {
	key store.Key

	waiting backlog[T]
	out     *Queue[T] // nil if no consumer holds one

	// failures counts the failed attempts since the key was last acknowledged. err is the last
	// error.
	failures int32
	// fixed is true if no event may shorten the back-off (again): an event has done that once, or a
	// server asked for the wait.
	fixed bool
	err   error
	// backoffEnd is the end of the failed key's back-off, also if an event has brought the retry
	// forward. It has no meaning without a failure.
	backoffEnd time.Duration

	// heapIndex is the key's place in the heap of delayed keys, or -1. A key in the heap has no turn.
	// due is the end of its back-off or delay.
	heapIndex int32
	due       time.Duration

	turn turn[T]
}

// waits reports whether events wait for the next Queue.
func (k *keyState[T]) waits() bool { return len(k.waiting.events) > 0 }

// backlog holds the events of one key that wait or are out together. A waiting backlog moves into
// the Queue that is handed out.
type backlog[T any] struct {
	events []record[T]
	// first is the first memory of events, so that the usual backlog of one event needs no
	// allocation.
	first [1]record[T]

	// since is the time at which the oldest event came: see now.
	since time.Duration

	// merged is the number of events that were merged into events.
	merged int32

	// live is true if at least one event is live.
	live bool
	// initial is true if Synced waits for these events to be settled.
	initial bool
}

// set replaces the events.
func (b *backlog[T]) set(events []record[T]) {
	b.events = events
	if len(events) == 0 || &events[0] != &b.first[0] {
		b.first[0] = record[T]{} // release objects that may be gone
	}
}

// moveTo moves the events to an empty backlog.
func (b *backlog[T]) moveTo(to *backlog[T]) {
	*to = *b
	if &b.events[0] == &b.first[0] {
		to.events = to.first[:]
	}
	*b = backlog[T]{}
}

// stateLocked returns the state of a key. It creates the state if necessary.
func (c *Collection[T]) stateLocked(key store.Key) *keyState[T] {
	k := c.keys[key]
	if k == nil {
		k = c.free.Get().(*keyState[T])
		k.key = key
		if c.keys == nil {
			c.keys = map[store.Key]*keyState[T]{}
		}
		c.keys[key] = k
		c.mostKeys = max(c.mostKeys, len(c.keys))
	}
	return k
}

// forgetLocked forgets a key without waiting events, unless its queue is out.
func (c *Collection[T]) forgetLocked(k *keyState[T]) {
	if k.out != nil || k.waits() {
		return
	}
	delete(c.keys, k.key)
	*k = keyState[T]{heapIndex: -1}
	c.free.Put(k)
	c.wakeDrainersLocked()
}

// shrinkKeysLocked gives memory back after a first list or a storm, because a map never gets smaller by
// itself. A consumer that goes to sleep calls it, so that it costs a busy one nothing. It leaves a map
// for twice the events of a buffer, which takes 7 KB at most: to make that again after each burst would
// double the CPU time of an event for 100 handlers.
func (c *Collection[T]) shrinkKeysLocked() {
	if c.mostKeys > 2*bufferSize && 16*len(c.keys) < c.mostKeys {
		keys := make(map[store.Key]*keyState[T], len(c.keys))
		maps.Copy(keys, c.keys)
		c.keys, c.mostKeys = keys, len(keys)
	}
}

// freeLists holds a *sync.Pool of unused key states for each type of object. All collections of a
// type share it: keys come and go with each event, and 1,000 handlers with a list each would keep
// more memory than the CPU's caches hold. Without the pool, an event for 100 handlers costs 1.8 times
// as much CPU time.
var freeLists sync.Map

func freeStates[T any]() *sync.Pool {
	list, _ := freeLists.LoadOrStore(reflect.TypeFor[T](), &sync.Pool{New: func() any {
		return &keyState[T]{heapIndex: -1}
	}})
	return list.(*sync.Pool)
}

var begin = time.Now()

// now returns the time since begin. A duration takes less memory than a time.Time.
func now() time.Duration { return time.Since(begin) }
