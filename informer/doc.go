// Package informer shares one reflector and one cache among many subscribers. An
// [Informer] is the SharedIndexInformer of client-go's tools/cache and of the
// blog series "Understanding Kubernetes' tools/cache package".
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
// Read the objects from [Informer.Cache], to which indexes can be added. A
// subscriber that would rather pull than be called ranges over
// [Subscription.Events]. One that wants some objects only subscribes with
// [Informer.HandleFiltered] or [Informer.SubscribeFiltered].
//
// [NewTransformed] caches what a function makes of the objects, [NewMetadata] their
// metadata alone, and New over [reflector.Dynamic] objects without a Go type.
// [WithStore] has something behind the cache, such as a file in which the next process
// finds what this one held: package persist.
//
// [NewScoped] has several namespaces or clusters in one cache; [AddScope] and
// [Informer.DropScope] change them while it runs.
//
// [store.AddBudget] bounds the memory of the cache: what is refused fails as every object
// that cannot be stored, in the state, the log and the error hook. In tests,
// [WithMutationGuard] finds who changes cached objects. Package ondemand has whole objects
// beside an informer of their metadata.
//
// A program with many informers puts them into a [Group]. [Share] makes one of them
// that ends with its last user.
//
// # Guarantees
//
//   - I1. The cache holds, sooner or later, what the API server holds. For each
//     object it goes through states in the order in which the server did; it may
//     skip some.
//   - I2. Every subscriber hears of every object that its predicate lets through, if it
//     has one: of those that are there when it subscribes, as initial additions, and of
//     all that happens from then on, with no gap and no repeat in between. It may
//     subscribe at any time.
//   - I3. A subscriber hears of a change after the cache shows it. By then the
//     cache may be fresher.
//   - I4. A subscriber is called for one event at a time. For each object it hears
//     of an addition, modifications and a deletion, in this order; the prior
//     object of each is the one that it heard of last. An object of the first list
//     that is deleted before the subscriber heard of it is a deletion alone: a
//     process that ran before may have left something behind for it. To a subscriber
//     with a predicate, an object that begins to satisfy it is an addition, and one that
//     ceases to is a deletion.
//   - I5. Subscribers do not delay each other, nor the reflector. One that is slow
//     gets the latest state of an object and never all the states in between; what
//     waits for it is bounded by the number of objects that exist or that it was
//     told of. [WithCompaction] changes that.
//   - I6. An object that was deleted and created again is a deletion and an
//     addition, also if nobody was connected meanwhile.
//   - I7. A relist calls nobody for objects that did not change. Only those who asked by
//     [WithResync] get objects once more, and their events say so.
//   - I8. Where a handler returns an error or panics, its event comes again after a
//     back-off, and others go on. An error made by [eventqueue.Permanent] is
//     reported, and its event does not come again.
//   - I9. When ctx ends, the reflector stops first; handlers get what is queued for
//     them, but for what waits for its back-off, until the time for that is over. Run
//     returns after the last call has returned, and may be called again: it resumes where
//     the watch was. So does the first Run of a new process after [Informer.Restore], or
//     over a store that has what the old one held.
//   - I10. What leaves the scopes of an informer is a deletion for every subscriber, which
//     says OutOfScope, and nothing is written to a scope after it was dropped. Scopes may be shards,
//     which come and go one by one: what stays is neither told nor listed again.
//   - I11. A subscriber with [WithQueueLimit] whose queue takes more is ended, and told so;
//     until then it misses nothing.
//
// # Synced and ready
//
// The cache is synced when it has been filled, and a subscriber when it has been told of
// all that it was filled with, be it that its handler failed. [Informer.WaitForSync]
// waits for both, and says otherwise what is missing: what the reflector does, what
// failed last, and which subscribers are behind. Both stay as they are once they are
// reached. Whether the cache can be relied on now is another question:
// [Informer.Ready] fails again when there has been no working watch for longer than
// [WithStaleness] allows.
//
// An informer of a resource that the server does not serve yet, because its
// CustomResourceDefinition is not installed, waits for it. The cause in its state is
// [reflector.ErrNotServed] until then.
//
// # Expected behaviour of subscribers
//
// Objects are shared by everybody and read-only: copy one before changing it. A
// handler may take its time, read the cache, subscribe and close subscriptions,
// its own too. A predicate is another thing: it runs while the cache is written, so it
// must be quick and pure.
//
// # Concurrency
//
// Every method may be called from any goroutine, but at most one Run at a time.
// Nothing starts before Run: handlers that subscribed are called from then on. All that
// Run started has ended when it returns.
//
// # Errors
//
// Failures of the reflector are [*reflector.Error], those of handlers
// [*eventqueue.HandlerError]; both go to the logger and to the hook given by
// [WithErrorHook]. Run returns what the reflector returned, in a [*ScopeError] if there
// are several, and a [*SubscriptionError] for each subscriber that had events left.
// [*SyncError] and [*StaleError] say why an informer is not synced, or not ready.
// [*ShareError] says why an informer cannot be shared, [*QueueLimitError] why a subscription
// was ended, [*BackingError] that the informer was given a store of another type, and [ErrBackingEnded]
// that the Run of its store did not return.
package informer
