package eventqueue

import (
	"runtime"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// follower turns the commits of a cache into events. The lock of the cache's writer guards it.
type follower[T any] struct {
	of     *Collection[T]
	filter *filter[T] // nil if everything is kept
	listed bool       // the first list is known

	failures predicateFailures
	wanted   []bool // memory for the next commit
}

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	c := f.of
	// No other goroutine has the collection yet, so the predicate may run under its lock.
	c.mu.Lock()
	defer c.mu.Unlock()
	came := now()
	for change := range state.Changes() {
		if f.filter.keeps(change.Key, change.Object) {
			r := newRecord(&change, List, true)
			c.enqueueLocked(&r, false, came)
		}
	}
	f.failures.count(&c.counters)
	f.listed = state.Synced()
	if f.listed {
		c.markListedLocked()
	}
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	c := f.of
	if c.isClosed() {
		return
	}
	changes := f.filter.of(commit.Changes, commit.Origin)
	defer f.filter.done()
	defer f.queue(commit, changes) // also if the predicate of KeepIf ends the goroutine
	f.selectWanted(commit, changes)
}

// queue buffers the events of a commit, or queues them.
func (f *follower[T]) queue(commit *store.Commit[T], changes []store.Change[T]) {
	c := f.of
	synced := commit.Synced && !f.listed
	f.listed = f.listed || synced
	if !synced && f.failures.n == 0 && (len(changes) == 0 || f.buffer(commit, changes)) {
		return
	}
	c.lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	f.failures.count(&c.counters)
	came := now()
	for i := range changes {
		if c.isClosed() {
			return // Close waits for mu
		}
		r := newRecord(&changes[i], commit.Origin, commit.Initial)
		c.enqueueLocked(&r, i < len(f.wanted) && f.wanted[i], came)
	}
	if synced {
		c.markListedLocked()
	}
	c.signalLocked()
}

// buffer adds the events of a commit to the buffer. It returns false if the caller must queue them:
// because there is no room, or because the last event has the same key and merges with the next one.
func (f *follower[T]) buffer(commit *store.Commit[T], changes []store.Change[T]) bool {
	c, b := f.of, &f.of.buffer
	if len(changes) > bufferSize || c.eager.Load() > 0 {
		return false
	}
	if b.room() < len(changes) {
		// Let consumers run. Otherwise a writer runs ahead of many handlers until a million events
		// wait, and the garbage collector and the CPU's caches cost more than the handlers.
		runtime.Gosched()
		if b.room() < len(changes) {
			return false
		}
	}
	if b.last == changes[0].Key && !b.empty() && c.policy() != KeepAll {
		return false
	}
	b.append(f.news(commit, changes), f.wanted)
	if c.eager.Load() > 0 { // since the check above; Close counts too
		c.lock()
		c.mu.Unlock()
	}
	if c.sleeping.Load() > 0 {
		c.mu.Lock()
		c.signalLocked()
		c.mu.Unlock()
	}
	return true
}

// news returns the events of a commit. Followers without a predicate share them.
func (f *follower[T]) news(commit *store.Commit[T], changes []store.Change[T]) []news[T] {
	type shared struct {
		all []news[T]
		one [1]news[T] // so that the usual commit of one change is one allocation
	}
	s, ok := commit.Shared.(*shared)
	if ok && f.filter == nil {
		return s.all
	}
	s = &shared{}
	s.all = s.one[:]
	if len(changes) > 1 {
		s.all = make([]news[T], len(changes))
	}
	came := now()
	for i := range changes {
		s.all[i] = news[T]{newRecord(&changes[i], commit.Origin, commit.Initial), came}
	}
	if f.filter == nil {
		commit.Shared = s
	}
	return s.all
}

// lock locks mu and queues the events that commits left in the buffer.
func (c *Collection[T]) lock() {
	c.mu.Lock()
	c.queueBufferedLocked()
}

// queueBufferedLocked queues the events in the buffer.
func (c *Collection[T]) queueBufferedLocked() {
	for !c.buffer.empty() {
		if a := c.buffer.take(); !c.isClosed() {
			c.enqueueLocked(&a.record, a.wanted, a.came)
		}
	}
}

// enqueueLocked adds an event that came at the given time.
func (c *Collection[T]) enqueueLocked(r *record[T], wanted bool, came time.Duration) {
	k := c.stateLocked(r.Key)
	switch {
	case k.waits():
		if !c.joinLocked(k, r, wanted) {
			return
		}
	case k.out != nil && r.Origin == Resync:
		c.counters.merged++ // the handler is working on this very state
		return
	default:
		c.beginLocked(k, r, came)
		k.waiting.first[0].wanted = wanted
	}
	if r.Origin != Resync {
		c.delayed.remove(k)
	}
	if k.heapIndex < 0 {
		c.readyLocked(k)
	}
}

// stateLocked returns the state of a key. It creates the state if necessary.
func (c *Collection[T]) stateLocked(key store.Key) *keyState[T] {
	hash := hashOf(key)
	k := c.keys.get(key, hash)
	if k == nil {
		k = c.free.Get().(*keyState[T])
		k.key, k.hash = key, hash
		c.keys.add(k)
	}
	return k
}

// beginLocked makes an event wait for a key that has no waiting event.
func (c *Collection[T]) beginLocked(k *keyState[T], r *record[T], came time.Duration) {
	b := &k.waiting
	b.first[0] = *r
	b.events, b.since, b.live = b.first[:], came, r.live()
	c.counters.waiting++
	c.counters.events++
}

// joinLocked adds an event to the waiting events of a key, and reports whether any remains.
func (c *Collection[T]) joinLocked(k *keyState[T], r *record[T], wanted bool) bool {
	b := &k.waiting
	if !b.live && r.live() {
		b.live = true
		c.reclassLocked(k)
	}
	next := *r
	next.wanted = wanted
	before := len(b.events)
	events, dropped := add(c.policy(), b.events, next)
	return c.resizedLocked(k, events, before, before+1, dropped)
}

// resizedLocked stores the waiting events of a key after a merge, and reports whether any remains.
// The argument counted is the number of events in the statistics; came is the number of events
// before the merge.
func (c *Collection[T]) resizedLocked(k *keyState[T], events []record[T], counted, came, dropped int) bool {
	c.counters.events += len(events) - counted
	merged := came - len(events) - dropped
	c.counters.merged += uint64(merged)
	k.waiting.merged += int32(merged)
	c.counters.dropped += uint64(dropped)
	k.waiting.set(events)
	if len(events) > 0 {
		return true
	}
	// Forget the key unless its queue is out.
	k.unlink()
	c.delayed.remove(k) // a queue can fail before its first event is handed over
	c.counters.waiting--
	if k.waiting.initial {
		c.initialSettledLocked()
	}
	k.waiting = backlog[T]{}
	c.forgetLocked(k)
	return false
}

// forgetLocked forgets a key without waiting events, unless its queue is out.
func (c *Collection[T]) forgetLocked(k *keyState[T]) {
	if k.out != nil || k.waits() {
		return
	}
	c.keys.remove(k)
	c.freeState(k)
	c.wakeDrainersLocked()
}
