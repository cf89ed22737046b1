// Package guard finds out who changes cached objects. Objects are shared between a cache
// and everybody who reads it; one who changes an object without copying it changes it for
// all, and is hard to find afterwards. In tests a [Guard] finds them: the key, the first
// field that differs, and the subscriber that had the object in hand.
//
// # Usage
//
// An informer takes a guard along by an option; a test that uses it fails for each change:
//
//	pods := informer.New(client, informer.WithMutationGuard(guard.Fail(t)))
//
// For a cache, or handlers of one's own:
//
//	g := guard.Watch("pods", cache, guard.Fail(t))
//	...
//	defer g.Given("my handler", key, pod)() // around the code that is given the object
//
// # Guarantees
//
//   - G1. A guard keeps the encoded form of each object that the cache holds, from its
//     commit on, and compares: when a later commit replaces or deletes the object, before
//     and after each use that [Guard.Given] is told of, at [Guard.Check], and at the end
//     of the test. Whatever differs in the object's JSON is reported, once for each
//     comparison that finds something new.
//   - G2. A change by code between a Given and its end is found at that end, and names
//     its subscriber; if several had the object in hand meanwhile, it names them all. An
//     object that the cache does not hold any more is watched from Given to its end.
//   - G3. A guard changes nothing: neither objects, nor what the cache holds, nor what
//     subscribers are told.
//
// # What it cannot tell
//
// Somebody who reads the cache and changes what they found has had nothing in hand: such a
// change is found, and names no subscriber, or one that had the object at the same time.
// [MutationError] also names those who were given the object before: they may have kept
// it. Fields that have no JSON are not seen, nor a nil slice that became an empty one with
// omitempty. What index functions, predicates and transforms change before the guard is told
// of the commit is taken for the original.
//
// # Costs
//
// Each commit encodes its objects once more, under the writer's lock, and compares the ones
// that it replaces; each event of a guarded subscriber encodes its objects twice. For a pod
// of 6 kB that is some 70 µs each, and as much memory as its JSON. It is for tests: a cache
// without a guard pays nothing.
//
// # Concurrency
//
// Everything may be called from any goroutine. A guard reads objects at any moment, so that
// under the race detector a change from another goroutine is a race that is reported with
// both stacks. One in a map may end the process by Go's own check: its trace names the
// culprit as well.
//
// # Errors
//
// A [*MutationError] for each change, and one [*EncodeError] for a guard that met an object
// without a JSON form, which it cannot guard.
package guard
