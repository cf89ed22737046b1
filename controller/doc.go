// Package controller runs a handler on what happens to objects: a [Controller] is
// a feed that fills an event-queue collection, and workers that empty it. It is
// the Controller of the blog series "Understanding Kubernetes' tools/cache
// package". On top of informers there is a [Reconciler], which calls a function for the
// keys of objects that changed, or whose relatives did.
//
// # Usage of a controller
//
//	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
//	r := reflector.New(clientset.CoreV1().Pods("default"), pods)
//	c := controller.New(r, pods, controller.Each(
//		func(ctx context.Context, event eventqueue.Event[*corev1.Pod]) error {
//			...
//			return nil
//		}))
//	err := c.Run(ctx) // until ctx ends
//
// The feed is usually a reflector; anything that runs and fills the collection
// will do. The handler gets the queue of events of one object at a time; [Each]
// makes one of a function for single events.
//
// # Usage of a reconciler
//
//	foos := informer.New(...)
//	deployments := informer.New(clientset.AppsV1().Deployments(""))
//	r := controller.NewReconciler("foos", foos,
//		func(ctx context.Context, key store.Key) (controller.Result, error) {
//			foo, ok := foos.Cache().Get(key)
//			... // read caches, write what is not as it should be
//			controller.Wrote(ctx, deployment)
//			return controller.Result{}, nil
//		},
//		controller.Watch(deployments, controller.Owner[*appsv1.Deployment](fooKind)))
//
//	var all informer.Group
//	all.Add(foos)
//	all.Add(deployments)
//	all.Add(r)
//	err := all.Run(ctx) // until ctx ends
//
// A handler is told what happened; a reconcile function finds out what is the case. Use
// the latter where several kinds of objects make up what is to be done. The program
// samplecontroller among the examples is a whole one.
//
// # Guarantees of a controller
//
//   - C1. The handler is called for one object by at most one worker at a time,
//     with everything that happened to the object since the handler last
//     succeeded on it. What else holds of the events says package eventqueue.
//   - C2. Where the handler returns an error or panics, the events come again,
//     after a back-off that grows with each failure of the object, together with
//     what happened meanwhile. Other objects are not held up. runtime.Goexit, as
//     of a test's FailNow, counts as a panic.
//   - C3. What fails by an error made by [Permanent] is reported, and does not come
//     again.
//   - C4. News of an object go before what only the first list or a resync brought,
//     but for one object in eight: see [WithLiveFirst]. The events of one object
//     keep their order.
//   - C5. When ctx ends, the feed is stopped first. The handler then gets what is
//     still queued, until nothing is left but what waits for its back-off, or the
//     time for that is over. Run returns after the last call has returned, and
//     says what is left.
//   - C6. Run may be called again: nothing that was not handled is lost in
//     between.
//
// # Guarantees of a reconciler
//
//   - R1. A key is reconciled by one worker at a time. What happens to it during a call
//     has it reconciled once more.
//   - R2. Nobody is called before all informers have filled their caches. The key of
//     every object in the primary cache is then reconciled, and that of every one that
//     [Watch] maps to. No change is missed after that, but those that a predicate
//     refuses and those of its own that [WithoutOwnWrites] keeps away: many changes may
//     make one call.
//   - R3. Where the function returns an error, panics or calls runtime.Goexit, the key
//     comes again, after a back-off that grows with each failure, unless the error is
//     [Permanent]. Other keys are not held up.
//   - R4. A key for which a call has written something, and said so by [Wrote] or
//     [Deleted], is not reconciled on a cache that does not show it, for as long as
//     [WithVisibilityTimeout] says; nor by the next Run of the same reconciler. After that
//     time it is reconciled again.
//   - R5. News go before what only the first list or a resync brought, but for one key in eight, and
//     a [Result] may say otherwise: see [Priority].
//   - R6. When ctx ends, the keys that wait are still reconciled, for as long as
//     [WithDrainTimeout] says; those that wait for a cache, as long as that is filled.
//     Run returns after the last call has returned, and names the keys that are left.
//     After [ErrHalt] there is no time for that.
//   - R7. Run may be called again: every key is then reconciled anew.
//   - R8. A panic in a mapping or a predicate is reported once, with the key of the event's
//     object, and costs the event alone. It goes to the reconciler's logger and error hook, or
//     to the informer's where the reconciler has none.
//   - R9. What leaves an informer, because a scope is dropped or an object belongs to another
//     shard, is not mistaken for a deletion: nobody is called for it, nor, where the primary
//     informer has scopes or shards, for a key of which it has no object, unless that was
//     deleted while it had it.
//
// Between two processes nothing of this holds: see packages leader and shard. A process that takes
// over has caches that are as fresh as its watches are; what the other one wrote last
// may not be in them yet. Writes that must not be made twice need a name or a resource
// version that lets the API server refuse the second.
//
// # Concurrency
//
// The handler runs on as many goroutines as there are workers, one unless
// [WithWorkers] says otherwise. All methods may be called from any goroutine, but
// at most one Run at a time.
//
// # Observing
//
// An [Observer] of a reconciler is told which events have keys reconciled, and of each
// call, whose context it may replace: for metrics and traces. What a [Controller] does,
// the observer of its collection is told: see [eventqueue.WithObserver].
//
// # Errors
//
// What a handler or a reconcile function returns goes to the logger and to the hook given by
// [WithErrorHook] as a [*eventqueue.HandlerError]; a panic is a [*eventqueue.PanicError]
// in it, with the key and the stack. How many there were, and how far the handler is
// behind, says the collection: see [eventqueue.Collection.Stats]. Run returns what the
// feed returned, and a [*eventqueue.DrainError] if events or keys were left.
package controller
