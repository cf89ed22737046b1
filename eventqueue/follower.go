package eventqueue

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// follower turns the commits of a cache into events. The lock of the cache's writer guards it.
type follower[T any] struct {
	collection *Collection[T]
	accepts    func(T) bool // the predicate of FollowFiltered; nil accepts all objects
	listed     bool         // the first list is known
}

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	f.commitState(state, &store.Commit[T]{Origin: List, Initial: true})
}

// resync is a follower that passes the objects of a cache to another follower once more. Between
// Start and the end of following it ignores commits, which the other follower receives itself.
type resync[T any] struct{ to *follower[T] }

func (r resync[T]) Start(state *store.Snapshot[T]) {
	r.to.commitState(state, &store.Commit[T]{Origin: Resync})
}

func (resync[T]) Commit(*store.Commit[T]) {}

// maxPart is the number of changes whose events are made at once, which bounds their memory.
const maxPart = 1024

// commitState passes the objects of a state on as commits of at most maxPart changes. The changes of
// a resync are Modifications.
func (f *follower[T]) commitState(state *store.Snapshot[T], commit *store.Commit[T]) {
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

// arrival is an event of a commit and the time at which it came: see now. The collections without a
// predicate share the arrivals of a commit, because 1,000 copies of each event cost more than all the
// rest. A shared arrival does not change. The others may: each part of a large commit reuses those of the
// part before.
type arrival[T any] struct {
	record record[T]
	came   time.Duration
	all    []arrival[T] // in the first event of a commit: all events
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	keepIf, becameSynced := f.collection.keepIf.Load(), commit.Synced && !f.listed
	f.listed = f.listed || becameSynced
	switch {
	case f.collection.IsClosed():
	case len(commit.Changes) > maxPart:
		// The parts use the same memory. So the buffer, which keeps its events, must not get any.
		memory, part := make([]arrival[T], 0, maxPart), *commit
		for part.Changes = range slices.Chunk(commit.Changes, maxPart) {
			f.queue(f.appendEvents(memory[:0], &part, keepIf), false)
		}
		f.queue(nil, becameSynced)
	case keepIf != nil || f.accepts != nil || len(commit.Changes) == 0:
		f.bufferOrQueue(f.appendEvents(nil, commit, keepIf), becameSynced)
	default:
		// All collections without predicates share the events of the commit. Shared holds a pointer, because a
		// slice in an any would be one more allocation.
		first, ok := commit.Shared.(*arrival[T])
		if !ok {
			all := f.appendEvents(make([]arrival[T], 0, len(commit.Changes)), commit, nil)
			first = &all[0]
			first.all, commit.Shared = all, first
		}
		f.bufferOrQueue(first.all, becameSynced)
	}
}

// appendEvents appends the events of a commit, with the Prior of the cache. When an event waits, merge.go
// adapts that to what the consumer acknowledged. It asks the predicate of KeepIf, if there is one, about
// each event.
func (f *follower[T]) appendEvents(all []arrival[T], commit *store.Commit[T], keepIf *func(Event[T]) bool) []arrival[T] {
	came := now()
	for i := range commit.Changes {
		change, ok := f.asAccepted(&commit.Changes[i], commit.Origin)
		if !ok {
			continue
		}
		all = append(all, arrival[T]{came: came, record: record[T]{
			Event: Event[T]{
				Type:            change.Type,
				Key:             change.Key,
				Prior:           change.Prior,
				PriorKnown:      change.Type != Addition,
				Object:          change.Object,
				Origin:          commit.Origin,
				Initial:         commit.Initial,
				FinalStateKnown: change.FinalStateKnown,
				OutOfScope:      change.OutOfScope,
			},
			uid: change.Version.UID,
		}})
		if keepIf != nil && !f.collection.IsClosed() { // keepIf may close the collection
			f.markKeptApart(&all[len(all)-1].record, *keepIf)
		}
	}
	return all
}

// bufferOrQueue leaves events in the buffer, or makes them wait for their keys.
func (f *follower[T]) bufferOrQueue(all []arrival[T], becameSynced bool) {
	if becameSynced || len(all) > 0 && !f.collection.tryBuffer(all) {
		f.queue(all, becameSynced)
	}
}

// queue makes events wait for their keys.
func (f *follower[T]) queue(all []arrival[T], becameSynced bool) {
	c := f.collection
	c.lockAndQueue()
	defer c.mu.Unlock()
	for i := range all {
		if c.IsClosed() {
			return // Close waits for mu
		}
		c.enqueueLocked(&all[i])
	}
	if becameSynced && !c.IsClosed() {
		c.markListedLocked()
	}
	c.signalLocked()
}

// tryBuffer leaves the events of a commit in the buffer. It returns false if the caller must queue
// them: because there is no room, because writers bypass the buffer, or because the first event
// has the key of the last one in the buffer, and merges with it.
func (c *Collection[T]) tryBuffer(all []arrival[T]) bool {
	b := &c.buffer
	if len(all) > bufferSize || c.bypass.Load() > 0 {
		return false
	}
	if b.room() < len(all) {
		// Let consumers run: see step 2 above Collection.
		runtime.Gosched()
		if b.room() < len(all) {
			return false
		}
	}
	if b.last == all[0].record.Key && !b.empty() && c.policy() != KeepAll {
		return false
	}
	b.append(all)
	if c.bypass.Load() > 0 { // since the check above; Close counts too
		c.lockAndQueue()
		c.mu.Unlock()
	}
	if c.sleeping.Load() > 0 {
		c.mu.Lock()
		c.signalLocked()
		c.mu.Unlock()
	}
	return true
}

// buffer holds events that the collection has not queued yet, in the order in which they came: see the
// comment above [Collection]. The lock of the cache's writer guards the writing end, and Collection.mu the
// reading end.
type buffer[T any] struct {
	ring           *[bufferSize]*arrival[T] // nil before the first event
	written, taken atomic.Uint32            // numbers of events since the beginning
	last           store.Key                // of the last event; belongs to the writer
}

// bufferSize is the largest number of events in a buffer.
const bufferSize = 64

func (b *buffer[T]) empty() bool { return b.written.Load() == b.taken.Load() }

// room returns the number of events that still fit.
func (b *buffer[T]) room() int { return bufferSize - int(b.written.Load()-b.taken.Load()) }

// append adds events. There must be room for them.
func (b *buffer[T]) append(all []arrival[T]) {
	if b.ring == nil {
		b.ring = new([bufferSize]*arrival[T])
	}
	n := b.written.Load()
	for i := range all {
		b.ring[(n+uint32(i))%bufferSize] = &all[i]
	}
	b.last = all[len(all)-1].record.Key
	b.written.Add(uint32(len(all)))
}

// take removes and returns the oldest event. The buffer must not be empty.
func (b *buffer[T]) take() (first *arrival[T]) {
	place := &b.ring[b.taken.Load()%bufferSize]
	first, *place = *place, nil
	b.taken.Add(1)
	return first
}

// asAccepted returns a change as a consumer sees it that knows only the objects that FollowFiltered
// accepts. It returns false if the change concerns no such object.
func (f *follower[T]) asAccepted(c *store.Change[T], origin Origin) (seen store.Change[T], ok bool) {
	seen = *c
	switch {
	case f.accepts == nil:
		return seen, true
	case c.Type == Addition:
		return seen, f.accepted(c.Key, c.Object)
	case c.Type == Deletion:
		return seen, f.accepted(c.Key, c.Prior)
	}
	is := f.accepted(c.Key, c.Object)
	was := is
	if origin != Resync {
		was = f.accepted(c.Key, c.Prior)
	}
	switch {
	case is && !was:
		var none T
		seen.Type, seen.Prior = Addition, none
	case was && !is:
		// The object's new state is not accepted, so the subscriber gets the prior state. If the change
		// comes from a list, the cache may have missed states in between.
		seen.Type, seen.Object, seen.FinalStateKnown = Deletion, c.Prior, origin != List
	}
	return seen, is || was
}

// accepted asks the predicate of FollowFiltered about an object.
func (f *follower[T]) accepted(key store.Key, object T) (ok bool) {
	defer f.collection.catch(key, &ok)
	return f.accepts(object)
}

// markKeptApart asks the predicate of KeepIf about an event.
func (f *follower[T]) markKeptApart(r *record[T], keepIf func(Event[T]) bool) {
	defer f.collection.catch(r.Key, &r.keptApart)
	r.keptApart = keepIf(r.Event)
}

// catch recovers a panic of either predicate, counts it, and sets its result to false.
// Call it by defer, without a lock.
func (c *Collection[T]) catch(key store.Key, result *bool) {
	if value := recover(); value != nil {
		*result = false
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counters.PredicateFailures++
		c.counters.PredicateErr = fmt.Errorf("predicate: %w", &PanicError{Key: key, Value: value, Stack: debug.Stack()})
	}
}

// Add implements [store.Store]: it adds an object to the cache and queues the resulting event.
func (c *Collection[T]) Add(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Add(object) })
}

// Update implements [store.Store].
func (c *Collection[T]) Update(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Update(object) })
}

// Delete implements [store.Store]. It queues nothing for an object that the cache does not hold.
func (c *Collection[T]) Delete(object T) error {
	return c.write(func(s *store.Cache[T]) error { return s.Delete(object) })
}

// DeleteKey implements [store.Store].
func (c *Collection[T]) DeleteKey(key store.Key) error {
	return c.write(func(s *store.Cache[T]) error { return s.DeleteKey(key) })
}

// Replace implements [store.Store]. It queues nothing for objects that the cache holds with the same
// UID, resource version and content. It queues a Deletion for each object that is missing from objects.
func (c *Collection[T]) Replace(objects []T, resourceVersion string) error {
	return c.write(func(s *store.Cache[T]) error { return s.Replace(objects, resourceVersion) })
}

// BeginBatch implements [store.BatchStore]. A commit of at most 1,024 changes queues all its events at
// once.
func (c *Collection[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](c) {
		return nil
	}
	return &batch[T]{c.cache.BeginBatch(c.cache, replace), c}
}

// Has implements [store.BatchStore].
func (c *Collection[T]) Has(key store.Key, version store.Version, hash uint64) bool {
	return c.cache.Has(key, version, hash)
}

// KeyOf returns the key of an object, even if the cache does not hold it: see [store.View.KeyOf].
func (c *Collection[T]) KeyOf(object T) (store.Key, error) { return c.cache.KeyOf(object) }

// Bookmark implements [store.Store]. It queues nothing.
func (c *Collection[T]) Bookmark(resourceVersion string) error {
	return c.write(func(s *store.Cache[T]) error { return s.Bookmark(resourceVersion) })
}

// ResourceVersion implements [store.Store]: it returns the resource version of the cache.
func (c *Collection[T]) ResourceVersion() string { return c.cache.ResourceVersion() }

func (c *Collection[T]) write(to func(*store.Cache[T]) error) error {
	if err := c.readOnly(); err != nil {
		return err
	}
	return to(c.cache)
}

// readOnly returns the reason for which the collection takes no writes, or nil.
func (c *Collection[T]) readOnly() error {
	switch {
	case !c.owned:
		return ErrReadOnly
	case c.IsClosed():
		return ErrClosed
	}
	return nil
}

// batch is a batch of the cache that fails once the collection is closed.
type batch[T any] struct {
	store.Batch[T]
	collection *Collection[T]
}

func (b *batch[T]) Write(w store.Write[T]) error {
	if err := b.collection.readOnly(); err != nil {
		return err
	}
	return b.Batch.Write(w)
}

func (b *batch[T]) Commit(resourceVersion string) error {
	if err := b.collection.readOnly(); err != nil {
		b.Discard()
		return err
	}
	return b.Batch.Commit(resourceVersion)
}
