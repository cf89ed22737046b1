// Package eventqueue turns the commits of a store into events and queues them,
// one queue of events for each object.
//
// An [Event] says what happened to an object: addition, modification or
// deletion, with its prior state. A [Queue] is everything that happened to ONE
// object since it was last looked at. A [Collection] holds the queues and hands
// them out. In the blog series "Understanding Kubernetes' tools/cache package"
// these are Event, EventQueue and EventQueueCollection, the Java names for
// client-go's Delta, Deltas and DeltaFIFO.
//
// An Event is not the Event of the Kubernetes API (corev1.Event), which is a
// resource like any other.
//
// # Usage
//
// A collection is a [store.Store]: let a reflector fill it, and range over what
// comes out.
//
//	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
//	go reflector.New(client.CoreV1().ConfigMaps("default"), configMaps).Run(ctx)
//	for queue := range configMaps.Queues(ctx) {
//		for event := range queue.Events() {
//			...
//		}
//	}
//
// The end of the loop's body acknowledges the queue. Call [Queue.Fail] to get
// it again later. [Collection.Process] does the same with several workers;
// [Collection.Events] yields single events.
//
// [New] gives the collection a cache of its own, which [Collection.Cache] lets
// you read. [Follow] puts a collection over a cache that others follow as well:
// that is how an informer serves many subscribers.
//
// # Guarantees
//
//   - E1. The events of an object come in the order in which they happened.
//     Objects wait for each other in the order of their first event.
//   - E2. At most one queue of a key is out at a time: keys can be worked in
//     parallel, one key never is.
//   - E3. The first event of a queue starts from the object that was last
//     acknowledged: it is its Prior.
//   - E4. What is not acknowledged comes again, together with what happened
//     meanwhile.
//   - E5. The cache may be fresher than the event in hand, never staler: a
//     change is visible before its event is queued.
//   - E6. Another object under an old key (a new UID) is a Deletion and an
//     Addition.
//   - E7. Resync and relist do not mix: an object that a relist found unchanged
//     causes no event, and [Collection.Resync] never brings back an object or a
//     state that is gone.
//   - E8. [Collection.Synced] closes after every object of the first list was
//     handed out and settled in some way, be it by a failure.
//
// # What a queue keeps
//
// [KeepAll], the default, keeps every event until it is acknowledged, as the
// series' EventQueue does. [KeepLatest] merges events, so that memory depends
// on the number of keys alone, however long a handler stalls:
//
//	waiting + new event                          becomes
//	Addition + Deletion                          nothing
//	Addition, tried or Initial + Deletion        the Deletion
//	Addition + Modification                      an Addition of the new object; stays tried and Initial
//	Modification + Modification or Deletion      the new one, with the first Prior
//	Deletion + Addition of the same UID          a Modification from the acknowledged object;
//	                                             an Addition if none was acknowledged
//	Deletion, tried + Addition of the same UID   both
//	Deletion + Addition of another or no UID     both
//	anything + resync                            unchanged
//
// "Tried" means handed out and not acknowledged: the handler may have acted on
// it. At most three events of a key are kept: the deletion of the acknowledged
// object, that of the newest one that was tried, and the current one.
//
// # Settling
//
// A queue that was handed out is settled once; the first way counts:
//
//   - Done, or the end of the loop's body, also by continue: acknowledged.
//   - Fail, a panic or [runtime.Goexit] in the body: put back, to be handed out
//     again after a back-off that doubles with each failure of the key. News
//     from the API server ends the wait. A panic is not recovered.
//   - break or return without Done: put back in front, not counted as a
//     failure.
//
// The body's end settles: a defer in the surrounding function runs later.
//
// # Concurrency
//
// Everything may be called from any goroutine, and several goroutines may range
// over the queues of one collection. No lock is held while a loop's body or a
// handler runs, so it may take its time, and write to the collection.
//
// # Errors
//
// [ErrClosed] after [Collection.Close]; [ErrReadOnly] for a write to a collection
// that follows a cache of somebody else's; otherwise the errors of
// [store.Cache]. [PanicError] is a handler's panic under [Collection.Process].
// [DrainError] says what was left when draining ended.
package eventqueue
