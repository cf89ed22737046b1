// Package reconcile calls a function for the keys of objects that changed, or whose related objects
// changed. The function reads the current state from the caches of informers, and writes the
// differences. A [Reconciler] runs a [controller.Controller]: informers feed it, and its
// event-queue collection holds keys. Package eventqueue defines the order, delays, back-off and
// drain of the calls.
//
// # Usage
//
//	foos := informer.New(...)
//	deployments := informer.New(clientset.AppsV1().Deployments(""))
//	r := reconcile.New("foos", foos,
//		func(ctx context.Context, key store.Key, foo *Foo) (reconcile.Result, error) {
//			... // foo is nil if the server has none; read caches, write the differences
//			reconcile.RecordWrite(ctx, deployment)
//			return reconcile.Result{}, nil
//		},
//		reconcile.Owns(deployments, fooKind.GroupKind()))
//
//	all := manager.New(nil)
//	all.Add(foos)
//	all.Add(deployments)
//	all.AddLeaderElected(r) // ends before the other members; runs in each process if there is no election
//	err := all.Run(ctx)     // until ctx ends
//
// A handler gets events; a reconcile function reads the current state. Use a reconciler where the
// work depends on several kinds of objects. The example samplecontroller is a complete program.
//
// # Guarantees
//
//   - reconcile-R1: One worker at a time reconciles a key. If the key gets an event during a call,
//     it is reconciled once more.
//   - reconcile-R2: The reconciler makes no call before all informers are synced: a cache that was
//     restored may be outdated until then. Scopes that are added later are not waited for. It then reconciles the key of every object in the
//     primary cache, and every key that [Watch] maps to. It misses no change after that: after a
//     change by another writer, a call begins, unless a predicate rejects the change. That includes the
//     deletion of an object that a call created, and that no list has shown, if the key waits for the
//     creation and the program may ask for the object: see [RecordWrite].
//     [IgnoreOwnWrites] leaves out own writes only. One call may cover many changes.
//   - reconcile-R3: If the function returns an error, panics or calls runtime.Goexit, the key is
//     retried after a back-off, which grows with each failure. An event that a reported write of
//     the failed calls caused never shortens the back-off, nor does an event during the call. A
//     change by another writer does so once in each back-off (queue-E11); later ones are
//     reconciled when it ends. So a function may write its error into the status of its object. A write
//     counts as another writer's where the type of the cache shows no UID and resource version. An
//     error of [eventqueue.Permanent] is not retried. Other keys are not delayed.
//   - reconcile-R4: If a call has reported a write with [RecordWrite] or [RecordDelete], the
//     reconciler waits until the caches have that write before it reconciles the key again: as long as
//     [WithReadYourWritesTimeout] says, but up to an hour while a cache is behind. After that it
//     reconciles the key on the caches as they are, unless the call returned an error of
//     [eventqueue.Permanent]. This also holds for the next Run of the same reconciler.
//   - reconcile-R5: Keys with live events, and keys that a [Result] asked for, go before keys with
//     only initial additions, except for one key in eight. A failed key keeps its
//     priority.
//   - reconcile-R6: When ctx ends, the reconciler still reconciles queued keys for the time of
//     [WithDrainTimeout]. This includes keys that wait for a cache, as long as the informers fill
//     their caches. Run returns after the last call has returned, and its error names the remaining
//     keys. After [controller.ErrStopNow], Run skips this drain.
//   - reconcile-R7: Run may be called again: it reconciles every key anew.
//   - reconcile-R8: A panic in a mapping or a predicate is reported once, with the key of the
//     event's object, and drops only that event. The report goes to the logger and error handler of
//     the reconciler, or to those of the informer if the reconciler has none.
//   - reconcile-R9: An object that leaves an informer, because a scope was dropped, does not count
//     as deleted: the reconciler is not called for it. If the primary informer has scopes or a
//     shard, the reconciler is not called for a key without an object either, unless that object was
//     deleted while the informer held it. Such a call is retried after an error. It is not repeated
//     after a RequeueAfter, nor for a write that the caches do not show yet. Return an error to be
//     called again. Nor is it called for a key in another namespace than the one of the primary
//     informer's client.
//   - reconcile-R10: Before its first call, Run waits until each cache has every change of its
//     objects that the server had when the term began, so that a new leader sees what the one before
//     did. The same holds after a first list at version "0", which a lagging server may answer with
//     an old state. [WithCatchUpTimeout] bounds the wait; after that, Run logs what it waited for,
//     and begins. The wait costs a list of one object for each informer, and a watch of three
//     seconds if changes of other kinds have raised the version. A program that starts with
//     consistent lists does not wait. Caches of servers without versions, of fake clients and of
//     replays are not waited for.
//   - reconcile-R11: The function hears that an object is gone only when it is gone from the API
//     server. If the primary informer has a label selector, a field selector, shards, [informer.WithGet]
//     or a client whose namespace is not known, a missing object may exist. So the reconciler sends one GET
//     for the key first: see [informer.Informer.Gone]. If the server says NotFound, or has an object of
//     another UID than the one whose deletion the watch showed, the function is called with nil. If
//     the object exists, there is no call. If the request fails, or is forbidden, the key is retried as
//     after an error of the function; so is a key whose resource the server no longer serves. While
//     the informer is one of package fleet whose kind is not served, there is no call for an object in
//     its cache, which may be outdated. A
//     repeated call for the same deletion does not ask again. Without selectors the watch is proof, and no
//     GET is sent, unless the cache rejected the object of the key. But if the key has a namespace, and
//     no object of the primary informer, nor its client, has shown yet whether the kind has namespaces, the reconciler first asks discovery, also without
//     selectors, if the client is a generated one or a client.Resource. If that is forbidden, or
//     discovery does not list the kind, the key stays as it is; after another failure the key is
//     retried. The worker that has the key waits at most ten seconds (if the RESTMapper takes a context) for each of
//     the two answers. If other objects trigger keys that the selector leaves out, each of their events
//     costs a GET: drop them by a predicate.
//
// None of this holds between two processes: see packages leader and shard. Because of reconcile-R10 a
// new leader probably knows the last writes of the other process, but not certainly: that process may
// send one more, and the wait is bounded. A write that must not happen twice needs a name or a
// resource version, so that the API server refuses the second one. An effect outside of the cluster
// needs a request that proves that the object is still there: see write-W4.
//
// # Concurrency
//
// The function runs on as many goroutines as there are workers. The default is one worker: see
// [WithWorkers]. All methods may be called from any goroutine, but at most one Run at a time.
//
// # Observing
//
// An [Observer] sees the events that trigger a reconcile, and each call. It may replace the context
// of a call. Use it for metrics and traces. [Reconciler.Stats] returns the state of the queue.
//
// # Errors
//
// An error of a reconcile function goes to the logger and to the error handler given by
// [WithErrorHandler], as a [*eventqueue.HandlerError]. For a panic it contains a
// [*eventqueue.PanicError], with the key and the stack. Run returns a [*eventqueue.DrainError] if
// keys were left.
//
// # Code
//
// Read Reconciler.Run in reconciler.go, then run.go: an event becomes a key in trigger, and the key a call
// in handle, which settle ends. source.go maps the events of an informer to keys. written.go is about the
// writes of a call, and decides which events show only them. hold.go makes the next call wait until the caches
// show them.
package reconcile
