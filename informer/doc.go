// Package informer shares one reflector and one cache among many subscribers. An [Informer]
// corresponds to the SharedIndexInformer of client-go's tools/cache, which the blog series
// "Understanding Kubernetes' tools/cache package" describes. Its idea in 40 lines is in
// examples/series/part07_sharedinformer.go.
//
// # Usage
//
//	pods := informer.New(clientset.CoreV1().Pods("default"))
//	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
//		OnAdd:    func(pod *corev1.Pod, initial bool) { ... },
//		OnUpdate: func(prior, pod *corev1.Pod) { ... },
//		OnDelete: func(pod *corev1.Pod, finalStateKnown bool) { ... },
//	})
//	err := pods.Run(ctx) // until ctx ends
//
// Read the objects from [Informer.Cache], and add indexes to that cache. A subscriber can also pull
// its events: it ranges over [Subscription.Consume]. A subscriber that needs only some objects
// subscribes with [Informer.HandleFiltered] or [Informer.SubscribeFiltered].
//
// [NewTransformed] caches the results of a function on the objects. [NewMetadata] caches only their
// metadata. New with [client.Dynamic] caches objects without a Go type. [NewStored] puts a store
// behind the cache, such as a file from which the next process restores the cache.
//
// Package scoped makes an informer of several namespaces or clusters in one cache. They may come and
// go while the informer runs.
//
// [store.AddBudget] bounds the memory of the cache. An object over the budget is rejected: the
// state, the log and the error handler report it, as they do every object that the cache cannot
// store. In tests, [WithMutationGuard] finds code that changes cached objects. Package ondemand
// fetches whole objects beside an informer of their metadata.
//
// A program with many informers adds them to a manager: see package manager.
//
// # Guarantees
//
//   - informer-I1: The cache eventually holds the same objects as the API server. Each object goes
//     through its states in the order of the server. The cache may skip states.
//   - informer-I2: A subscriber gets an initial addition for each object in the cache when it
//     subscribes, and then every later change, without a gap or a repeat, where changes that wait are
//     merged as informer-I5 says. A subscriber with a predicate gets only the objects that the
//     predicate accepts. It may subscribe at any time.
//   - informer-I3: A subscriber gets a change after the cache shows that change. By then the cache
//     may be newer.
//   - informer-I4: The informer calls a subscriber for one event at a time. For each object, the
//     subscriber gets an addition, modifications and a deletion, in this order. The prior object of
//     each event is the last object that the subscriber got. An event that failed and comes again
//     does not count: it keeps its prior object. If an object of the first list is deleted before
//     the subscriber got it, the subscriber gets only the deletion: an earlier process may have left
//     something behind for that object. With a predicate, an object that begins to satisfy the
//     predicate is an addition. An object that ceases to satisfy it is a deletion, and so is one that
//     ceases to match a selector of the informer: these objects still exist (queue-E9).
//   - informer-I5: A slow subscriber delays neither other subscribers nor the reflector. It gets
//     the latest state of an object and may miss the states in between. The size of its queue is
//     bounded by the number of objects that exist or that it got. [WithQueue] changes that.
//   - informer-I6: An object that was deleted and created again is a deletion and an addition, even
//     if the watch was broken at that time.
//   - informer-I7: A relist sends no events for unchanged objects, and a Modification for an object
//     with another content, also under the same resource version (store-S9). Only subscribers with
//     [WithResync] get unchanged objects again, and the events are marked as resyncs.
//   - informer-I8: If a handler returns an error or panics, its event is retried after a back-off.
//     Events of other objects continue. An error made by [eventqueue.Permanent] is reported, and
//     its event is not retried.
//   - informer-I9: When ctx ends, the reflector stops first. Handlers then process their queued
//     events until the drain timeout ends, or until a hard stop, as after the loss of a lease. Run does
//     not wait for events in back-off. It returns after the last call has returned. Run may be called
//     again: it resumes from the last resource version. The first Run of a new process also resumes, after
//     [Informer.Restore] or with a store that holds the earlier cache.
//   - informer-I10: An object that leaves the scopes of an informer is a deletion for every
//     subscriber, with OutOfScope set. Nothing is written to a scope after it was dropped.
//
// # Synced and ready
//
// The cache is synced when the first list has filled it. A subscriber is synced when it got every
// object of that list, even if its handler failed. [Informer.WaitForSync] waits for both. Its error
// names the state of the reflector, the last failure and the subscribers that are behind. The cache
// and the subscribers then stay synced; an added scope or handler has to sync as well.
// [Informer.Ready] answers a different question: whether a program can rely on the cache now. Ready
// fails again when there has been no working watch for longer than [WithStaleness] allows.
//
// If the server does not serve the resource yet, because its CustomResourceDefinition is not
// installed, the informer waits for it. Until then the error in its state is
// [reflector.ErrNotServed].
//
// # Expected behaviour of subscribers
//
// All readers share the objects, and objects are read-only: copy an object before you change it. A
// handler may be slow, read the cache, subscribe, and close subscriptions, including its own.
// A predicate runs while the cache is written, so it must be quick and pure.
//
// # Concurrency
//
// Every method may be called from any goroutine, but at most one Run at a time. Nothing starts
// before Run, and Run then calls the handlers that are already subscribed. When Run returns, all
// its goroutines have ended, except that of a watch which its client does not end (reflector-R8).
//
// # Errors
//
// A failure of the reflector is a [*reflector.Error], a failure of a handler an
// [*eventqueue.HandlerError]. Both go to the logger and to the function given by
// [WithErrorHandler]. Run returns the errors of the reflectors, and an [*eventqueue.DrainError] for
// each handler that had events left. A [*SyncError] says why an informer is not synced, and a
// [*StaleError] why it is not ready.
//
// # Code
//
// Read informer.go, which makes an informer around its cache, then run.go: Run fills the cache, calls the
// handlers, and ends both. subscription.go is one subscriber from its queue to its handler. sync.go says
// why an informer is not synced or not ready, and covers.go what the server has beside the cache.
package informer
