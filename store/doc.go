// Package store keeps Kubernetes objects in memory, or any other values that have a key.
//
// A [Cache] is written by a reflector and read by many goroutines. Reads are local and never
// take the writer's lock; Get allocates nothing.
//
//	pods := store.New(store.ObjectKey[*corev1.Pod])
//	byNode, err := store.AddIndex(pods, "node", func(pod *corev1.Pod) []string {
//		return []string{pod.Spec.NodeName}
//	})
//	...
//	for key, pod := range byNode.Get("node-1") {
//		fmt.Println(key, pod.Status.Phase)
//	}
//
// Objects are shared between the cache and its readers. Copy an object before you change it.
//
// This is the Store of the blog series "Understanding Kubernetes' tools/cache package". Its idea in
// 80 lines is in examples/series/part01_store.go.
//
// # Parts
//
//   - [Store] is the write side: a reflector adds, updates, deletes and replaces. Package
//     decorate has more stores; eventqueue.Collection is another.
//   - [Reader] is the read side. A [View] reads a cache: pass it to code that may only read. A
//     [Snapshot] is one state, for several reads.
//   - [Index] finds objects by values that a function derives from them, in order.
//   - [Batch] makes many writes one [Commit]. Functions BeginWatch and BeginList of package
//     decorate start one for any Store.
//   - [Follower] receives each commit. Event queues, and so informers and controllers, are
//     followers.
//   - [Partition] is a part of a cache with a writer of its own. Its [Scope] is a namespace or a
//     cluster. [Cache.Drop] deletes a scope.
//   - [Budget] measures the memory of the objects, and bounds it.
//
// To wait instead of polling, use [View.WatchKey] and [View.WatchNamespace] for any change. Package
// await waits for a resource version and for your own writes.
//
// # The series
//
// Part 1 of "Understanding Kubernetes' tools/cache package" shows the Store of client-go: nine
// methods of interface{}. Here the methods are typed, and split into a write side and a read side:
//
//	there             here                       why
//	Add, Update       Store.Add, Store.Update    the same
//	Delete            Store.Delete, DeleteKey    a deletion may be known by its key alone
//	List              Reader.All                 an iterator, which copies no list
//	ListKeys          Reader.All                 each step yields the key as well
//	Get(obj)          View.KeyOf, Reader.Get     the key of an object, then the object
//	GetByKey          Reader.Get                 keys are values with fields, not text
//	Replace           Store.Replace              the same
//	Resync            Collection.Resync          in package eventqueue, for one consumer
//	KeyFunc           KeyFunc                    typed; ObjectKey replaces MetaNamespaceKeyFunc
//
// Store.Bookmark and Store.ResourceVersion are new: a reflector resumes at the version of its
// store.
//
// # Guarantees
//
//   - store-S1: A read sees one committed state. An iteration sees the state at its start, however
//     long it runs.
//   - store-S2: Iterations yield objects in the order of keys. An [Index] yields them in the order
//     of values, then keys.
//   - store-S3: A resource version is never visible before the objects that it stands for.
//   - store-S4: A write that fails changes nothing: object, indexes and resource version. In a
//     Replace or a batch, a bad object does not stop the others: it comes back in a
//     [RejectedError], and the cache keeps the old object of its key, and in a list also that of its UID.
//   - store-S5: The resource version never passes a rejected object: the rejected key holds it back
//     until the key is stored or deleted, or a Replace rejects nothing. Rejected returns these keys. A
//     write outside of the scope of its writer is rejected, and holds nothing back. If a Replace that
//     rejects objects is older than the cache, the cache has no resource version.
//   - store-S6: A follower receives the current state and then every commit, in order, without gaps
//     or repeats.
//   - store-S7: A new UID under an old key is a Deletion and an Addition.
//   - store-S9: Content decides what a change is. An object that is written again with the same
//     UID, resource version and content ([EqualContent]) keeps its pointer and causes no change, in
//     a list as in a watch. With another content it is a Modification, also under the same version:
//     the server shows objects differently after a definition got a default, or another conversion.
//     Objects without a UID or a version are compared by content alone; the results of an informer's
//     transform have those of the object that they were made of. A list that comes object by
//     object in a [Batch] counts as a Replace, with the last write of each key.
//   - store-S10: A write to a partition changes nothing outside of its scope. The deletions of a
//     dropped scope say OutOfScope.
//   - store-S11: After every commit, a [Budget] knows the approximate memory of the objects. With a
//     limit, no write exceeds it: the cache rejects the object with [ErrOverBudget].
//
// # Concurrency
//
// Every function and method is safe for concurrent use, except for a [Batch], which belongs to one
// goroutine. Writes happen one at a time. KeyFuncs, index functions, the function of a Budget,
// methods EqualContent and followers run under the writer's lock. They must be quick. They may read
// the cache, except for EqualContent, which may run under a lock of readers as well. Whatever takes the
// writer's lock blocks for ever in them: a write, AddIndex, Partition, Follow, and in other packages a new
// subscription, the end of one, or a resync. Readers never wait for the writer's lock. The body of an
// iteration runs without any lock and may write.
//
// # Errors
//
// A nil function panics at construction. If a function panics for an object, the cache rejects that
// object. A function must not call runtime.Goexit, as FailNow of a test does. Tell errors apart
// with errors.Is and errors.As. The text of an error names the object, the index or the scope:
//
//	error              when                                what to do
//	*RejectedError     the store did not store some        fix the object or the function;
//	                   objects, each a Rejection           a reflector reports it and goes on
//	ErrBadKey          nil, no name, or another key        fix the object or the KeyFunc
//	                   than its Write says
//	ErrNotHeld         listed as unchanged, but not held   list the object again
//	ErrOutOfScope      outside of the partition, overlap   write through the partition that
//	                   of scopes, partition dropped        contains the object
//	ErrOverBudget      no room in the Budget               raise the limit, store less
//	ErrPanic           a function panicked; has the stack  fix the function
//
// A mistake in the program, such as an index name that is taken, is an error whose text says what
// to do. A plain Store cannot take a list with a rejected object, and stores nothing of it:
// implement [BatchStore].
//
// The cache compares resource versions for waiters, and to notice a write that would take its own
// version too far or back. It stores a version that is no number like any other.
//
// # Code
//
// One write is in write.go, from Cache.Add until readers see it. It leaves that file for six
// questions: what the key and the version of an object are (key.go), what counts as a change
// (content.go), where the objects are (entry.go and tree.go), which values the indexes have (postings.go),
// what a follower gets (commit.go), and which error a rejected write returns (rejected.go). Loops of
// WatchKey are woken by watch.go, a wait of package await is a follower, in await/waiter.go, and what a reader does
// is in cache.go. A list is in batch.go, and ends in the same functions. partition.go and budget.go
// matter only to a cache with partitions or a budget, and unannounced.go only to tests of package clientgo.
//
// A snapshot, in snapshot.go, copies the roots of the trees, and the next commits copy the nodes that
// they change. Cache.epoch shows a commit which entries a snapshot has: the commit replaces those, and
// changes all others in place.
//
// # Costs
//
// A cache of pointers needs about 190 bytes for an object with two index values. An update
// allocates nothing, or one entry of 80 bytes if a snapshot has the object. The first iteration
// after a commit makes a snapshot, and the next commits copy the tree nodes that they change. A
// commit of more than 1,024 changes that touches a quarter of the objects copies all nodes. A point
// read waits at most for a commit of 1,024 changes. See docs/reference/performance.md.
package store
