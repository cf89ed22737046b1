package eventqueue

import (
	"fmt"
	"runtime/debug"

	"github.com/kubereflector/kubereflector/store"
)

// FilterError says that the predicate of [FollowFiltered] panicked on an object. The collection
// treats the object as rejected by the predicate.
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

// FollowFiltered is [Follow] for the objects for which keep returns true. If keep returns false for
// the prior state of an object and true for the new one, the collection queues an Addition. In the
// opposite case, it queues a Deletion whose Object is the prior state. The collection queues no
// events for other objects.
//
// The function keep must be pure and depend on the object alone. The collection calls it again for
// the prior state of an object and needs the same answer. The function runs under the lock of the
// cache's writer, so it must be quick. It must not write to the cache or use the collection. If
// keep panics on an object, the collection treats the object as rejected. Consumers that know the
// object then get a Deletion, and [Collection.Stats] reports the panic. A nil keep keeps all
// objects.
func FollowFiltered[T any](cache *store.Cache[T], keep func(T) bool, opts ...Option) *Collection[T] {
	return follow(cache, keep, opts)
}

// filter is the predicate of a follower; a nil filter keeps all objects. The lock of the cache's
// writer guards it.
type filter[T any] struct {
	keep func(T) bool

	changes  []store.Change[T] // memory for the next commit
	failures uint64
	err      error
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
	defer func() {
		if value := recover(); value != nil {
			kept = false
			f.failures++
			f.err = &FilterError{Key: key, Err: &PanicError{Key: key, Value: value, Stack: debug.Stack()}}
		}
	}()
	return f.keep(object)
}
