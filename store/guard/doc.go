// Package guard finds code that changes cached objects. A cache and all its readers share each
// object. Code that changes an object without copying it changes it for all of them, and is hard to
// find. In tests, a [Guard] reports the key, the first field that differs, and the subscriber that
// was using the object.
//
// # Usage
//
// Pass a guard to an informer as an option. The test then fails for each change:
//
//	pods := informer.New(client, informer.WithMutationGuard(guard.Fail(t)))
//
// To guard a cache, or your own handlers:
//
//	g := guard.Watch("pods", cache, guard.Fail(t))
//	...
//	defer g.Given("my handler", key, pod)() // around the code that is given the object
//
// # Guarantees
//
//   - guard-G1: A guard keeps the JSON of each object that the cache holds, from its commit on. It
//     compares the object with this JSON when a later commit replaces or deletes the object, and at
//     both ends of each use that [Guard.Given] marks. It also compares in [Guard.Check] and at the
//     end of the test. It reports every difference, once for each comparison that finds a new one.
//   - guard-G2: The guard finds a change between a Given and its end at that end, and names the
//     subscriber. If several subscribers used the object meanwhile, it names them all. It watches
//     an object that the cache no longer holds from Given to its end.
//   - guard-G3: A guard changes nothing: neither objects, nor the content of the cache, nor the
//     events of subscribers.
//
// # Limits
//
// Code may read an object from the cache without Given, and change it. The guard finds the change,
// but names no subscriber, or one that used the object at the same time. [MutationError] also names
// the subscribers that used the object before, because they may have kept it. The guard does not
// see fields without JSON. With omitempty it does not see that a nil slice became an empty one.
// Index functions, predicates and transforms run before the guard receives the commit: it takes an
// object that they changed for the original.
//
// # Costs
//
// The guard encodes the objects of each commit once more, under the writer's lock, and compares the
// objects that the commit replaces. It encodes the objects of each event of a guarded subscriber
// twice. For a pod of 6 kB each encoding takes some 70 µs. The guard keeps the JSON of each object
// in memory. Use guards in tests only: a cache without a guard pays nothing.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. A guard reads objects at any time. So the
// race detector reports a change in another goroutine as a race, with both stacks. A change of a
// map may end the process by Go's own check, whose trace also names the code.
//
// # Errors
//
// A [*MutationError] reports each change. An [*EncodeError] reports an object without a JSON form,
// which the guard cannot guard; each guard reports only the first.
package guard
