// Package decorate has a store that stands in front of another store. [Transform] changes each write
// on its way, and keeps nothing: it stores another value for each object, such as a smaller copy.
//
// A Transform goes in front of a [store.Cache], a [store.Partition], another Transform, or any
// [store.Store] of your own. [BeginWatch] and [BeginList] start a batch of any of these stores.
// Reflectors use it, too.
//
// A Transform is a [store.BatchStore]. It passes a batch to the store behind it as one batch,
// and passes a list object by object, as it comes.
//
// # Functions
//
// The functions run in the goroutine that writes, before the Transform calls the store behind it,
// so outside of the locks of that store. If a function fails or panics ([store.ErrPanic]), the
// Transform rejects only that object. The store behind keeps its old object under the key, and its
// resource version stays before the rejected object. A missing store or function panics at
// construction.
//
// A store that is no BatchStore cannot keep an object that a list omits. So a Replace with a
// rejected object fails as a whole, with an error that is no [*store.RejectedError]. A later write
// moves the resource version of such a store past a rejected object.
//
// # Concurrency
//
// A Transform has no state. It is safe for concurrent use if the store behind and the functions are.
package decorate
