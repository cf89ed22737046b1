package eventqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// Collection holds the event queues of many objects and hands them out, one
// object at a time, in the order in which something first happened to them. See
// the package documentation for what it guarantees.
//
// Create one with [New] or [Follow]. All methods are safe for concurrent use.
type Collection[T any] struct {
	options
	cache    *store.Cache[T]
	owned    bool // cache is the collection's own
	follower *follower[T]
	unfollow func()

	// wake holds a token while somebody may find a queue to take. Whoever
	// takes one and leaves another puts the token back.
	wake   chan struct{}
	closed chan struct{}
	synced chan struct{}

	// mu protects the fields below it. Commits take it inside the cache's
	// writer lock; whoever consumes takes it alone. It is never held while
	// code of a user runs.
	mu      sync.Mutex
	keys    map[store.Key]*line[T] // every key that waits or is out
	ready   line[T]                // the ring of those that can be taken
	delayed delayed[T]
	timer   *time.Timer // fires when the first of delayed is due
	out     int

	listed   bool // the first list is known
	unsynced int  // keys of the first list that were not settled yet

	idle chan struct{} // closed when nothing is ready or out; nil if nobody waits
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
	c := &Collection[T]{
		options: newOptions(opts),
		cache:   cache,
		wake:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
		synced:  make(chan struct{}),
		keys:    make(map[store.Key]*line[T]),
	}
	c.ready.next, c.ready.prev = &c.ready, &c.ready
	c.follower = &follower[T]{of: c}
	c.unfollow = cache.Follow(c.follower)
	return c
}

// Cache returns the cache that the collection's events come from, for reading.
func (c *Collection[T]) Cache() *store.View[T] { return c.cache.View() }

// Len returns the number of keys that wait or are out.
func (c *Collection[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

// Resync queues a Modification of origin Resync, with the same Prior and Object,
// for every object of the cache that has no events waiting.
func (c *Collection[T]) Resync() { c.cache.Resync(c.follower) }

// Close ends the collection for good: nothing more is queued, and whoever waits
// for a queue gets [ErrClosed]. Queues that are out may still be settled, to no
// effect. It may be called more than once, and from a handler.
func (c *Collection[T]) Close() {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		return
	}
	close(c.closed)
	if c.timer != nil {
		c.timer.Stop()
	}
	clear(c.keys)
	c.delayed = nil
	c.ready.next, c.ready.prev = &c.ready, &c.ready
	c.wakeDrainersLocked()
	c.mu.Unlock()
	// Not under mu: a commit holds the lock that this takes while it waits
	// for mu.
	c.unfollow()
}

func (c *Collection[T]) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Take waits for a queue and hands it out. Settle it by [Queue.Done] or
// [Queue.Fail]; ranging over [Collection.Queues] does so by itself. Take returns
// the cause of ctx once that has ended, and [ErrClosed] once the collection is
// closed.
func (c *Collection[T]) Take(ctx context.Context) (*Queue[T], error) {
	for {
		// Checked first, and not left to select, which picks at random: after
		// the end nothing is handed out any more.
		if ctx.Err() != nil {
			c.signal() // the token may have been meant for somebody else
			return nil, context.Cause(ctx)
		}
		if q, err := c.tryTake(); q != nil || err != nil {
			return q, err
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
		case <-c.closed:
		}
	}
}

func (c *Collection[T]) tryTake() (*Queue[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return nil, ErrClosed
	}
	l := c.firstReadyLocked()
	if l == nil {
		return nil, nil
	}
	q := &Queue[T]{of: c, key: l.key, events: l.waiting, attempt: l.failures + 1, initial: l.initial}
	c.out++
	l.out, l.waiting, l.initial = q, nil, false
	l.unlink()
	if c.firstReadyLocked() != nil {
		c.signal()
	}
	return q, nil
}

// firstReadyLocked returns the first key that is not out, or nil. At most as
// many are passed over as there are consumers.
func (c *Collection[T]) firstReadyLocked() *line[T] {
	for l := c.ready.next; l != &c.ready; l = l.next {
		if l.out == nil {
			return l
		}
	}
	return nil
}

func (c *Collection[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// enqueueLocked adds an event.
func (c *Collection[T]) enqueueLocked(r record[T]) {
	l := c.keys[r.Key]
	if l == nil {
		l = &line[T]{key: r.Key, heapIndex: -1}
		c.keys[r.Key] = l
	}
	if r.Origin == Resync && l.out != nil && len(l.waiting) == 0 {
		// The handler is working on this very state.
		return
	}
	l.waiting = merge(c.compaction, l.waiting, r)
	if len(l.waiting) == 0 {
		c.emptiedLocked(l)
		return
	}
	if r.Origin != Resync {
		c.delayed.remove(l)
	}
	if !l.linked() && l.heapIndex < 0 {
		l.linkBefore(&c.ready)
	}
}

// emptiedLocked notes that nothing waits for a key any more, and forgets the key
// unless it is out.
func (c *Collection[T]) emptiedLocked(l *line[T]) {
	l.unlink()
	c.delayed.remove(l)
	if l.initial {
		l.initial = false
		c.initialSettledLocked()
	}
	if l.out == nil {
		delete(c.keys, l.key)
		c.wakeDrainersLocked()
	}
}

// settle takes a queue back.
func (c *Collection[T]) settle(q *Queue[T], how outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.settled || c.isClosed() {
		q.settled = true
		return
	}
	q.settled = true
	c.out--
	l := c.keys[q.key]
	l.out = nil
	if how.acknowledged {
		l.failures, l.err = 0, nil
	} else {
		c.putBackLocked(l, q)
	}
	if q.initial && (how.acknowledged || how.failed) {
		c.initialSettledLocked()
	} else if q.initial {
		l.initial = true
	}

	switch {
	case len(l.waiting) == 0:
		c.emptiedLocked(l)
	case how.failed:
		c.delayLocked(l, how.err)
	case how.acknowledged:
		if !l.linked() {
			l.linkBefore(&c.ready)
		}
	default:
		l.unlink()
		l.linkBefore(c.ready.next)
	}
	c.signal()
	c.wakeDrainersLocked()
}

// putBackLocked makes the events of a queue that was not acknowledged wait
// again, merged with those that came meanwhile.
func (c *Collection[T]) putBackLocked(l *line[T], q *Queue[T]) {
	// A copy: the queue is a value, which its holder may still read.
	events := slices.Clone(q.events[q.acknowledged:])
	for i := range events {
		events[i].tried = true
	}
	for _, r := range l.waiting {
		events = merge(c.compaction, events, r)
	}
	l.waiting = events
}

// delayLocked makes a key that failed wait, unless there is news of it.
func (c *Collection[T]) delayLocked(l *line[T], err error) {
	l.failures++
	l.err = err
	if l.linked() {
		return
	}
	l.due = time.Now().Add(c.backoff.delay(l.failures))
	c.delayed.add(l)
	c.setTimerLocked()
}

// setTimerLocked makes the timer fire when the first delayed key is due.
func (c *Collection[T]) setTimerLocked() {
	if len(c.delayed) == 0 {
		return
	}
	wait := time.Until(c.delayed[0].due)
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.release)
	} else {
		c.timer.Reset(wait)
	}
}

// release makes the keys whose back-off is over ready.
func (c *Collection[T]) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(c.delayed) > 0 && !c.delayed[0].due.After(now) {
		l := c.delayed[0]
		c.delayed.remove(l)
		l.linkBefore(&c.ready)
	}
	c.setTimerLocked()
	c.signal()
}
