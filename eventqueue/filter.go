package eventqueue

import (
	"fmt"
	"runtime/debug"

	"github.com/kubereflector/kubereflector/store"
)

// FilterError says that the predicate of [FollowFiltered] panicked on an object. The
// object counts as one that the predicate refused.
type FilterError struct {
	Key store.Key
	// Err is a [*PanicError].
	Err error
}

// Error names the key and the failure.
func (e *FilterError) Error() string {
	return fmt.Sprintf("predicate failed on %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *FilterError) Unwrap() error { return e.Err }

// FollowFiltered is [Follow] for somebody who wants to know of some objects only:
// those for which keep returns true. An object that changes so that keep begins to be
// true of it is an Addition; one of which it ceases to be true is a Deletion, whose
// Object is the last state of which it was. What happens to others is no event.
//
// keep must be pure, and depend on nothing but the object: it is asked again of the
// prior state of an object, and must answer as it did. It runs under the lock of the
// cache's writer, so it must be quick and must not write to the cache or touch the
// collection. An object on which it panics counts as one that it refused, so that it is
// deleted for whoever knew of it; the panic shows in [Collection.Stats]. A nil keep
// keeps everything.
func FollowFiltered[T any](cache *store.Cache[T], keep func(T) bool, opts ...Option) *Collection[T] {
	return follow(cache, keep, opts)
}

// filter is the predicate of a follower; a nil one keeps everything. It belongs to whoever
// holds the lock of the cache's writer.
type filter[T any] struct {
	keep func(T) bool

	changes  []store.Change[T] // memory for the next commit
	failures uint64
	err      error
}

// of returns what changes mean to somebody who knows only of what is kept. It is valid
// until the next call.
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

// done lets go of the objects of the last commit.
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

// failed reports whether the predicate panicked since the last count.
func (f *filter[T]) failed() bool { return f != nil && f.failures > 0 }

// count adds how often the predicate panicked to the statistics.
func (f *filter[T]) count(n *counters) {
	if f.failed() {
		n.filterFailures += f.failures
		n.filterErr = f.err
		f.failures = 0
	}
}

// see returns what one change means, and whether it means anything.
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
		// What it has become is none of the subscriber's business. A list may
		// have missed states that were.
		seen.Type, seen.Object, seen.FinalStateKnown = Deletion, c.Prior, origin != List
	}
	return seen, is || was
}

// keeps runs the user's function.
func (f *filter[T]) keeps(key store.Key, object T) (kept bool) {
	if f == nil {
		return true
	}
	defer func() {
		if value := recover(); value != nil {
			kept = false
			f.failures++
			f.err = &FilterError{Key: key, Err: &PanicError{Key: key, Value: value, Stack: debug.Stack()}}
		}
	}()
	return f.keep(object)
}
