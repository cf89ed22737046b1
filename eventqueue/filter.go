package eventqueue

import (
	"fmt"
	"runtime/debug"

	"github.com/kubereflector/kubereflector/store"
)

// see translates a change for a consumer that sees only the objects that the predicate keeps. It
// returns false if the change concerns no such object.
func (f *follower[T]) see(c *store.Change[T], origin Origin) (seen store.Change[T], ok bool) {
	seen = *c
	switch {
	case f.keep == nil:
		return seen, true
	case c.Type == Addition:
		return seen, f.keeps(c.Key, c.Object)
	case c.Type == Deletion:
		return seen, f.keeps(c.Key, c.Prior)
	}
	is := f.keeps(c.Key, c.Object)
	was := is
	if origin != Resync {
		was = f.keeps(c.Key, c.Prior)
	}
	switch {
	case is && !was:
		var none T
		seen.Type, seen.Prior = Addition, none
	case was && !is:
		// The object's new state does not match the predicate, so the subscriber gets the prior
		// state. If the change comes from a list, the cache may have missed states in between.
		seen.Type, seen.Object, seen.FinalStateKnown = Deletion, c.Prior, origin != List
	}
	return seen, is || was
}

// keeps runs the predicate of FollowFiltered.
func (f *follower[T]) keeps(key store.Key, object T) (kept bool) {
	defer f.of.catch(key, &kept)
	return f.keep(object)
}

// KeepIf hands over the events for which keep returns true one by one. The collection merges all
// other events as [KeepLatest] does, whatever [WithCompaction] selects. Memory then depends on the
// number of events that keep selects. A nil keep removes the predicate.
//
// The collection calls keep once for each later event. The function runs under the lock of the
// cache's writer, so it must be quick and must not write to the cache. If it panics, the collection
// treats the result as false, and [Collection.Stats] reports the panic.
func (c *Collection[T]) KeepIf(keep func(Event[T]) bool) {
	if keep == nil {
		c.keep.Store(nil)
		return
	}
	c.keep.Store(&keep)
}

// policy returns the compaction in effect.
func (c *Collection[T]) policy() Compaction {
	if c.keep.Load() != nil {
		return KeepLatest
	}
	return c.compaction
}

// selectWanted asks the predicate of KeepIf about each event.
func (f *follower[T]) selectWanted(all []news[T], keep func(Event[T]) bool) {
	for i := range all {
		if f.of.IsClosed() {
			return // keep may close the collection
		}
		f.selectOne(&all[i].record, keep)
	}
}

func (f *follower[T]) selectOne(r *record[T], keep func(Event[T]) bool) {
	defer f.of.catch(r.Key, &r.wanted)
	r.wanted = keep(r.Event)
}

// catch recovers a panic of a predicate, counts it, and sets the result of the predicate to false.
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
