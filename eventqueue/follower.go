package eventqueue

import (
	"runtime"
	"sync/atomic"
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
			c.enqueueLocked(&r, hashOf(r.Key), false, came)
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
		c.enqueueLocked(&r, hashOf(r.Key), i < len(f.wanted) && f.wanted[i], came)
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
	if f.filter == nil {
		switch shared := commit.Shared.(type) {
		case *[1]news[T]:
			return shared[:]
		case []news[T]:
			return shared
		}
	}
	var all []news[T]
	var shared any
	if len(changes) == 1 { // the usual commit is one small allocation
		one := new([1]news[T])
		all, shared = one[:], one
	} else {
		all = make([]news[T], len(changes))
		shared = all
	}
	came := now()
	for i := range changes {
		all[i] = news[T]{newRecord(&changes[i], commit.Origin, commit.Initial), hashOf(changes[i].Key), came}
	}
	if f.filter == nil {
		commit.Shared = shared
	}
	return all
}

// buffer holds events that the collection has not queued yet, in the order in which they came. A
// writer only leaves pointers in it, so that it does not wait for consumers and does not load the
// key states of many handlers into the CPU's caches. A goroutine that locks the collection queues
// these events first: see Collection.lock. Consumers thus see the same state as if the writer had
// queued the events itself.
//
// The lock of the cache's writer guards the writing end, and Collection.mu the reading end.
type buffer[T any] struct {
	ring           *[bufferSize]arrival[T] // nil before the first event
	written, taken atomic.Uint32           // numbers of events since the beginning
	last           store.Key               // of the last event; belongs to the writer
}

// bufferSize is the largest number of events in a buffer.
const bufferSize = 64

// arrival is an event in a buffer.
type arrival[T any] struct {
	*news[T]
	wanted bool // the predicate of KeepIf selected the event
}

// news is an event of a commit and the time at which it came: see now. All collections that follow
// a cache share it, because 1,000 copies of each event cost more than all the rest. It never
// changes.
type news[T any] struct {
	record record[T]
	hash   uint64 // of the key
	came   time.Duration
}

func (b *buffer[T]) empty() bool { return b.written.Load() == b.taken.Load() }

// room returns the number of events that still fit.
func (b *buffer[T]) room() int { return bufferSize - int(b.written.Load()-b.taken.Load()) }

// append adds events. There must be room for them.
func (b *buffer[T]) append(all []news[T], wanted []bool) {
	if b.ring == nil {
		b.ring = new([bufferSize]arrival[T])
	}
	n := b.written.Load()
	for i := range all {
		b.ring[(n+uint32(i))%bufferSize] = arrival[T]{&all[i], i < len(wanted) && wanted[i]}
	}
	b.last = all[len(all)-1].record.Key
	b.written.Add(uint32(len(all)))
}

// take removes and returns the oldest event. The buffer must not be empty.
func (b *buffer[T]) take() arrival[T] {
	a := &b.ring[b.taken.Load()%bufferSize]
	first := *a
	*a = arrival[T]{}
	b.taken.Add(1)
	return first
}
