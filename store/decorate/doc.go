// Package decorate has stores that stand in front of other stores. They change each write on its
// way, and keep nothing themselves.
//
//   - [Transform] stores another value for each object, such as a smaller copy.
//   - [Filter] stores the objects that pass a function, and deletes an object that no longer
//     passes.
//
// A decorator goes in front of a [store.Cache], a [store.Partition], another decorator, or any
// [store.Store] of your own:
//
//	names := store.New(func(name string) (store.Key, error) { ... })
//	running := decorate.Filter(
//		decorate.Transform(names, store.ObjectKey[*corev1.Pod], func(pod *corev1.Pod) (string, error) { ... }),
//		func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
//
// [BeginWatch] and [BeginList] start a batch of any of these stores. Reflectors use it, too.
//
// Each decorator is a [store.BatchStore]. It passes a batch to the store behind it as one batch,
// and passes a list object by object, as it comes.
//
// # Functions
//
// The functions run in the goroutine that writes, before the decorator calls the store behind it,
// so outside of the locks of that store. If a function fails or panics ([store.ErrPanic]), the
// decorator rejects only that object. The store behind keeps its old object under the key, and its
// resource version stays before the rejected object. A missing store or function panics at
// construction.
//
// A store that is no BatchStore cannot keep an object that a list omits. So a Replace with a
// rejected object fails as a whole, with an error that is no [*store.RejectedError]. A later write
// moves the resource version of such a store past a rejected object.
//
// # Concurrency
//
// Transform and Filter have no state. They are safe for concurrent use if the store behind and the
// functions are.
package decorate
