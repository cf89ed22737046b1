// Package decorate has stores in front of stores: they change what a store is given, and keep
// nothing themselves.
//
//   - [Transform] stores something else for each object, such as a smaller copy.
//   - [Filter] stores the objects that pass a function, and deletes those that do not any more.
//   - [Tee] writes to several stores.
//
// A decorator goes in front of a [store.Cache], a [store.Partition], another decorator, or any
// [store.Store] of your own:
//
//	names := store.New(func(name string) (store.Key, error) { ... })
//	running := decorate.Filter(
//		decorate.Transform(names, store.ObjectKey[*corev1.Pod], func(pod *corev1.Pod) (string, error) { ... }),
//		func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
//
// Each decorator is a [store.BatchStore]: it gives a batch to the store behind it as one batch, and
// a list object by object, as it comes.
//
// # Functions
//
// The functions run in the goroutine that writes, before the store behind is called, and so outside
// of its locks. A function that fails or panics ([store.ErrPanic]) rejects its object and nothing
// else: the store behind keeps what it holds under the key, and its resource version stays before
// the object. A missing store or function panics at construction.
//
// A store that is no BatchStore cannot keep what a list does not give it: a Replace with a rejected
// object fails as a whole with an error that is no [*store.RejectedError], and a later write moves its resource version
// past a rejected object.
//
// # Concurrency
//
// Transform and Filter have no state: they may be used as concurrently as the store behind and the
// functions. Write to a [Tee] from one goroutine at a time.
package decorate
