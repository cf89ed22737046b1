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
	keep   func(T) bool // the predicate of FollowFiltered; nil keeps all objects
	listed bool         // the first list is known
}

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	f.deliver(state, &store.Commit[T]{Origin: List, Initial: true})
}

// resync is a follower that delivers the objects of a cache to another follower once more. Between
// Start and the end of following it ignores commits, which the other follower receives itself.
type resync[T any] struct{ to *follower[T] }

func (r resync[T]) Start(state *store.Snapshot[T]) {
	r.to.deliver(state, &store.Commit[T]{Origin: Resync})
}

func (resync[T]) Commit(*store.Commit[T]) {}

// maxPart is the number of changes whose events are made at once, which bounds their memory.
const maxPart = 1024

// deliver passes the objects of a state on as commits of at most maxPart changes. The changes of a
// resync are Modifications.
func (f *follower[T]) deliver(state *store.Snapshot[T], commit *store.Commit[T]) {
	for change := range state.Changes() {
		if len(commit.Changes) == maxPart {
			f.Commit(commit)
			commit.Changes, commit.Shared = commit.Changes[:0], nil
		}
		if commit.Origin == Resync {
			change.Type, change.Prior = Modification, change.Object
		}
		commit.Changes = append(commit.Changes, change)
	}
	commit.Synced = state.Synced()
	f.Commit(commit)
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	switch wanted := f.of.keep.Load(); {
	case f.of.IsClosed():
	case len(commit.Changes) > maxPart:
		f.commitParts(*commit, wanted, make([]news[T], 0, maxPart))
	case wanted != nil || f.keep != nil:
		f.commit(f.appendNews(nil, commit), wanted, commit.Synced, false)
	default:
		f.commit(f.sharedNews(commit), nil, commit.Synced, false)
	}
}

// commitParts queues the events of a large commit in parts, which use the same memory. So the buffer,
// which keeps its events, must not get any.
func (f *follower[T]) commitParts(commit store.Commit[T], wanted *func(Event[T]) bool, memory []news[T]) {
	part := commit
	if len(commit.Changes) > maxPart {
		part.Changes, part.Synced = commit.Changes[:maxPart], false
		commit.Changes = commit.Changes[maxPart:]
		defer f.commitParts(commit, wanted, memory) // also if the predicate of KeepIf ends the goroutine
	}
	f.commit(f.appendNews(memory[:0], &part), wanted, part.Synced, true)
}

// commit queues the events of a commit that the predicate of KeepIf selects, or all if it is nil. If
// past is true, the events do not go through the buffer.
func (f *follower[T]) commit(all []news[T], wanted *func(Event[T]) bool, synced, past bool) {
	defer f.queue(all, synced, past) // also if the predicate ends the goroutine
	if wanted != nil {
		f.selectWanted(all, *wanted)
	}
}

// sharedNews returns the events of a commit, which all collections without predicates share.
func (f *follower[T]) sharedNews(commit *store.Commit[T]) (all []news[T]) {
	if first, ok := commit.Shared.(*news[T]); ok {
		return first.all
	}
	all = f.appendNews(make([]news[T], 0, len(commit.Changes)), commit)
	if len(all) > 0 {
		all[0].all = all
		commit.Shared = &all[0]
	}
	return all
}

// appendNews appends the events of a commit.
func (f *follower[T]) appendNews(all []news[T], commit *store.Commit[T]) []news[T] {
	came := now()
	for i := range commit.Changes {
		if change, ok := f.see(&commit.Changes[i], commit.Origin); ok {
			all = append(all, news[T]{
				record: newRecord(&change, commit.Origin, commit.Initial), hash: hashOf(change.Key), came: came,
			})
		}
	}
	return all
}

// queue buffers the events of a commit, or queues them.
func (f *follower[T]) queue(all []news[T], synced, past bool) {
	c := f.of
	synced = synced && !f.listed
	f.listed = f.listed || synced
	if !synced && (len(all) == 0 || !past && c.bufferNews(all)) {
		return
	}
	c.lock()
	defer c.mu.Unlock()
	for i := range all {
		if c.IsClosed() {
			return // Close waits for mu
		}
		c.enqueueLocked(&all[i])
	}
	if synced && !c.IsClosed() {
		c.markListedLocked()
	}
	c.signalLocked()
}

// bufferNews adds the events of a commit to the buffer. It returns false if the caller must queue
// them: because there is no room, or because the last event has the same key and merges with the
// next one.
func (c *Collection[T]) bufferNews(all []news[T]) bool {
	b := &c.buffer
	if len(all) > bufferSize || c.eager.Load() > 0 {
		return false
	}
	if b.room() < len(all) {
		// Let consumers run. Otherwise a writer runs ahead of many handlers until a million events
		// wait, and the garbage collector and the CPU's caches cost more than the handlers.
		runtime.Gosched()
		if b.room() < len(all) {
			return false
		}
	}
	if b.last == all[0].record.Key && !b.empty() && c.policy() != KeepAll {
		return false
	}
	b.append(all)
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

// buffer holds events that the collection has not queued yet, in the order in which they came. A
// writer only leaves pointers in it, so that it does not wait for consumers and does not load the
// key states of many handlers into the CPU's caches. A goroutine that locks the collection queues
// these events first: see Collection.lock. Consumers thus see the same state as if the writer had
// queued the events itself.
//
// The lock of the cache's writer guards the writing end, and Collection.mu the reading end.
type buffer[T any] struct {
	ring           *[bufferSize]*news[T] // nil before the first event
	written, taken atomic.Uint32         // numbers of events since the beginning
	last           store.Key             // of the last event; belongs to the writer
}

// bufferSize is the largest number of events in a buffer.
const bufferSize = 64

// news is an event of a commit and the time at which it came: see now. All collections that follow
// a cache share it, because 1,000 copies of each event cost more than all the rest. It never
// changes.
type news[T any] struct {
	record record[T]
	hash   uint64 // of the key
	came   time.Duration
	all    []news[T] // in the first event of a commit: all events
}

func (b *buffer[T]) empty() bool { return b.written.Load() == b.taken.Load() }

// room returns the number of events that still fit.
func (b *buffer[T]) room() int { return bufferSize - int(b.written.Load()-b.taken.Load()) }

// append adds events. There must be room for them.
func (b *buffer[T]) append(all []news[T]) {
	if b.ring == nil {
		b.ring = new([bufferSize]*news[T])
	}
	n := b.written.Load()
	for i := range all {
		b.ring[(n+uint32(i))%bufferSize] = &all[i]
	}
	b.last = all[len(all)-1].record.Key
	b.written.Add(uint32(len(all)))
}

// take removes and returns the oldest event. The buffer must not be empty.
func (b *buffer[T]) take() (first *news[T]) {
	place := &b.ring[b.taken.Load()%bufferSize]
	first, *place = *place, nil
	b.taken.Add(1)
	return first
}
