package eventqueue

import (
	"fmt"
	"runtime/debug"

	"github.com/kubereflector/kubereflector/store"
)

// filter is the predicate of a follower; a nil filter keeps all objects. The lock of the cache's
// writer guards it.
type filter[T any] struct {
	keep func(T) bool

	changes  []store.Change[T] // memory for the next commit
	failures *predicateFailures
}

// of translates changes for a consumer that sees only the kept objects. The result is valid until
// the next call.
func (f *filter[T]) of(changes []store.Change[T], origin Origin) []store.Change[T] {
	if f == nil {
		return changes
	}
	kept := f.changes[:0]
	for i := range changes {
		if seen, ok := f.see(&changes[i], origin); ok {
			kept = append(kept, seen)
		}
	}
	f.changes = kept
	return kept
}

// done releases the objects of the last commit.
func (f *filter[T]) done() {
	if f == nil {
		return
	}
	const most = 1024
	if cap(f.changes) > most {
		f.changes = nil
		return
	}
	clear(f.changes)
}

// see translates one change. It returns false if the change concerns no kept object.
func (f *filter[T]) see(c *store.Change[T], origin Origin) (seen store.Change[T], ok bool) {
	seen = *c
	switch c.Type {
	case Addition:
		return seen, f.keeps(c.Key, c.Object)
	case Deletion:
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

// keeps runs the user's function.
func (f *filter[T]) keeps(key store.Key, object T) (kept bool) {
	if f == nil {
		return true
	}
	defer f.failures.catch(key, &kept)
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

// selectWanted asks the predicate of KeepIf about each change.
func (f *follower[T]) selectWanted(commit *store.Commit[T], changes []store.Change[T]) {
	f.wanted = f.wanted[:0]
	keep := f.of.keep.Load()
	if keep == nil {
		return
	}
	for i := range changes {
		if f.of.isClosed() {
			return // keep may close the collection
		}
		r := newRecord(&changes[i], commit.Origin, commit.Initial)
		f.wanted = append(f.wanted, f.wants(*keep, r.Event))
	}
}

func (f *follower[T]) wants(keep func(Event[T]) bool, event Event[T]) (wanted bool) {
	defer f.failures.catch(event.Key, &wanted)
	return keep(event)
}

// predicateFailures counts the panics of predicates until the collection adds them to its
// statistics. The lock of the cache's writer guards it.
type predicateFailures struct {
	n   uint64
	err error
}

// catch recovers a panic of a predicate and sets its result to false. Call it by defer.
func (p *predicateFailures) catch(key store.Key, result *bool) {
	if value := recover(); value != nil {
		*result = false
		p.n++
		p.err = fmt.Errorf("predicate: %w", &PanicError{Key: key, Value: value, Stack: debug.Stack()})
	}
}

// count adds the failures to the statistics.
func (p *predicateFailures) count(s *Stats) {
	if p.n > 0 {
		s.PredicateFailures += p.n
		s.PredicateErr = p.err
		p.n = 0
	}
}
