// Package store holds Kubernetes objects, or any other values that have a key:
// the contract that a reflector writes to, a cache that fulfils it, and the
// commits that everything above the cache is built from.
//
// # Who uses it
//
// A reflector writes to a [Store]: it adds, updates and deletes single objects
// as a watch reports them, and replaces everything after a list. A program
// reads from a [Reader]: by key, by namespace, in order, or through an [Index].
// [Cache] is both. [View] is a cache in the hands of somebody who may only
// read.
//
// In the blog series "Understanding Kubernetes' tools/cache package" these are
// Store, Indexer and the map of known objects. The series' Resync is no method
// of a Store here: handing objects out again is the business of event queues
// (package eventqueue), for which [Cache.Resync] is the door.
//
// # Usage
//
//	pods := store.New(store.ObjectKey[*corev1.Pod])
//	byNode, err := store.AddIndex(pods, "node", func(pod *corev1.Pod) []string {
//		return []string{pod.Spec.NodeName}
//	})
//	...
//	for key, pod := range byNode.Get("node-1") { ... }
//
// The values need not come from Kubernetes: any type with a [KeyFunc] will do.
//
// # Reading
//
// Reads are of one committed state. [Cache.Get] looks up one object; All,
// Namespace and the indexes iterate in order over a [Snapshot],
// which [Cache.Snapshot] pins for those who want several reads of one moment.
// [Index] finds objects by a value, and by ranges of values.
//
// To wait rather than to poll: [Cache.WaitFor] until the cache has seen a resource
// version, [Cache.WaitForObject] and [Cache.WaitForDeletion] until it shows what
// the caller has just written to the server, [Cache.WatchKey]
// and [Cache.WatchNamespace] until something changes there.
//
// # Writing
//
// A [Batch] makes many writes one commit. [Cache.Partition] is the door for one
// writer of several, such as a reflector for each of some namespaces or clusters;
// [Cache.Drop] deletes what left. A [BatchStore] is a Store with these abilities,
// and [Batches] finds out whether a Store is one.
//
// # Around a cache
//
// [AddBudget] says how much memory the objects take, and bounds it. Package overlay lies
// over a cache and shows a program its own writes before the cache has them; package guard
// finds, in tests, who changes objects of a cache.
//
// # Decorators
//
// A decorator is a Store in front of others. It changes what they are told, and
// keeps nothing itself:
//
//   - [Transform] stores something else for each object, such as a smaller copy.
//   - [Filter] stores the objects that pass, and deletes those that do not any
//     more.
//   - [Tee] writes to several stores.
//
// They go in front of each other, of a [Partition], and of any Store of your own:
//
//	names := store.New(func(name string) (store.Key, error) { ... })
//	running := store.Filter(
//		store.Transform(names, store.ObjectKey[*corev1.Pod], func(pod *corev1.Pod) (string, error) { ... }),
//		func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
//
// Their functions run before the store behind them is locked. One that fails
// rejects its object and nothing else.
//
// # Guarantees
//
//   - S1. Every read is of one committed state. A walk sees the state that was
//     current when it began, however long it takes and whatever is written
//     meanwhile.
//   - S2. Reads run in the order of keys. Reads of several values of an [Index] run in
//     the order of values first.
//   - S3. A resource version is never visible before the objects that it
//     stands for.
//   - S4. A write that fails leaves the cache as it was: object, indexes and
//     resource version. One bad object in a Replace does not stop the others:
//     they are committed, the bad one keeps its old value, if its key is known or
//     an object with its UID is held, and comes back in a [RejectedError].
//   - S5. As long as the cache lacks an object that it was given and had to
//     reject, its resource version stays before that object. It moves again
//     when the object was stored or deleted, or after a Replace without
//     rejections. After a Replace that lowers the resource version and has
//     rejections there is none. Those who wait for a later resource version are
//     held up as long, by one bad object of all: [WaitError] names it.
//   - S6. A follower gets the current state and then every commit, with no gap
//     and no repeat, in the order in which they were made.
//   - S7. Another object under an old key (a new UID) is a deletion and an
//     addition, never a modification.
//   - S8. Waiting for a resource version never ends early: what happened up to it
//     is visible then, deletions included, whatever partitions came meanwhile.
//     It does not end at all while an object of before is lacking (S5), so give
//     the context a deadline.
//   - S9. A Replace keeps the very object that it finds at the same UID and
//     resource version, and reports nothing for it.
//   - S10. What is written to a partition touches nothing outside of its scope.
//   - S11. A cache with a [Budget] knows about how much memory its objects take, after
//     every commit, and with a limit no write makes it more than that: what is too much is
//     rejected with a [BudgetError].
//   - S12. Partitions may be shards of one place. Where an object is made anew under its
//     key, and so belongs to another shard, a writer that is behind neither deletes nor
//     replaces the new one, and brings back none that has ended. This takes resource
//     versions that are numbers, as those of API servers are.
//   - S13. The deletion of an object that went on to exist, because its scope was dropped,
//     says Left.
//   - S14. A list that is put into a [Stage] object by object ends as ReplaceAll would
//     have. The Stage of a [Transform] keeps nothing of an object but what its function
//     made of it; that of a cache has the index functions called when an object is put.
//
// # Concurrency
//
// Every exported function and method may be called from any goroutine, but for the
// methods of a [Batch], and for writes to a [Tee] or to a Store of your own behind a
// decorator, which are for one goroutine at a time. Writes to a cache happen one
// at a time. KeyFuncs, index functions and followers run under the
// writer's lock: they must be quick and must not write to the same cache, which
// would block for ever; they may read from it. A panic in a KeyFunc or an index
// function rejects the object. No lock that a reader needs is held while they
// run. Reading never runs user code under a lock: the body of a walk may take
// its time, and may read and write the cache.
//
// Objects are shared between the cache and everybody who reads it. They are
// read-only: copy an object before changing it.
//
// # Errors
//
// [RejectedError] names what could not be stored and why, one [Rejection] an
// object. Causes can be told apart with errors.Is: [ErrNilObject], [ErrNoName],
// [ErrNoKeyFunc], [ErrNoFunc], [ErrKeyMismatch], [ErrPanic], [ErrOutOfScope],
// [ErrNotHeld], [ErrNoWrite], [ErrOverBudget] (also of a list that was ended), and what the function of a [Transform] returned. The
// first two come from [ObjectKey] in a [KeyError], and a panic of an index function
// in an [IndexError]. [RefusedError] says that, because of such objects, a Store
// without batches was given nothing. Other errors are [IndexError], of an index that
// was not added, [ScopeError], [WaitError] and [ErrNoStore].
//
// Resource versions are compared in four places only: by those who wait, to find
// out that a Replace lowered one, by a [Tee], to find the least, and by partitions that
// are shards of one place, to find the newer of two objects under one key (S12).
// Everywhere else they are opaque, so that a version that is no number is stored like any other.
//
// # Costs
//
// A cache of pointers needs about 180 bytes for an object with two index values,
// on top of the object. A commit allocates one entry; the first reader after it
// pays for a snapshot, and the next commit copies the parts of the trees that it
// changes; one of more than 1,024 changes and a quarter of the objects copies them
// whole. A point read takes a read lock for its lookup; it waits for no more than
// a commit of 1,024 changes. See docs/performance.md. A [Budget] measures each object when
// it comes and when it goes; a cache without one pays nothing for that.
package store
