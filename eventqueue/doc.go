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
// [Collection.Events] yields single events, and [Collection.ProcessEach] calls a function
// for each. [Collection.Take] is what they are made
// of, for those who want to settle by [Queue.Done], [Queue.Fail] and [Queue.PutBack]
// themselves.
//
// [New] gives the collection a cache of its own, which [Collection.Cache] lets
// you read. [Follow] puts a collection over a cache that others follow as well:
// that is how an informer serves many subscribers. [FollowFiltered] tells of some of the
// objects only: one that enters the selection is an Addition, one that leaves it a
// Deletion.
//
// # Guarantees
//
//   - queue-E1: The events of an object come in the order in which they happened. Objects
//     come in the order of their first event.
//   - queue-E2: At most one queue of a key is out at a time. Keys run in parallel; one key
//     never does.
//   - queue-E3: The first event of a queue starts from the object that was last acknowledged:
//     its Prior.
//   - queue-E4: Events that were not acknowledged come again, together with those that came
//     meanwhile.
//   - queue-E5: The cache is never staler than the event in hand. It may be fresher.
//   - queue-E6: A new UID under an old key is a Deletion and an Addition.
//   - queue-E7: An object that a relist found unchanged causes no event, and
//     [Collection.Resync] never brings back an object or a state that is gone.
//   - queue-E8: [Collection.Synced] closes once every object of the first list was handed out
//     and settled. A failure settles as well.
//   - queue-E9: A Deletion says OutOfScope if the object still exists: its scope was dropped,
//     or another shard owns it. Any other Deletion is of an object that was deleted or is
//     not known to exist.
//
// # Order
//
// Objects come in the order of their first event. If [WithLiveFirst] or
// [Collection.LiveFirst] says so, objects of which there is news go before those of
// which only events of the first list or of a resync wait; one in eight is then still
// one of the latter. An object that is put back by break, return or [Queue.PutBack] is
// in front of all others of its kind; one that failed is behind them when its back-off
// is over, and what a [Permanent] error leaves of one is behind them at once.
//
// # What a queue keeps
//
// [KeepAll] keeps every event until it is acknowledged, as the
// series' EventQueue does. [KeepLatest], the default, merges events, so that memory depends
// on the number of keys alone, beside 64 events at most that nobody looked at yet, however
// long a handler stalls. What the last event that
// waits and a new one become:
//
//	waiting + new event                         becomes
//	Addition + Deletion                         nothing
//	Addition, tried + Deletion                  the Deletion, its Prior unknown
//	Addition, Initial + Deletion                the Deletion, its Prior unknown: an earlier
//	                                            process may have left something behind
//	Addition + Modification                     an Addition of the new object
//	Modification + Modification                 the new one, with the first Prior
//	Modification + Deletion                     the Deletion, with the first Prior
//	Deletion + Addition, same UID               a Modification from the acknowledged object;
//	                                            an Addition if none was acknowledged
//	Deletion, handed over + Addition, same UID  both
//	Deletion + Addition, another UID            both
//	Deletion + Addition, no UID                 both
//	anything + resync                           unchanged
//
// "Tried" means that an event of the object was handed over and not acknowledged: the
// handler may have acted on it, and must hear of its end. [Queue.Each], [Queue.Events],
// [Queue.Oldest], [Queue.Newest] and [Collection.Events] hand over each event that they
// return or yield. If the holder of a queue uses none of them, all its events count as
// handed over, because the holder may act on the key. What two events become stays tried and
// Initial if one of them was, has the origin and the final state of the new one, and is
// then looked at together with the event before it. So [Deletion a, Addition b] and a
// Deletion of b are the Deletion of a again if b was not tried, and both deletions if it
// was. A resync never joins others, so that Resync is the origin of an event only if
// nothing else happened.
//
// A Deletion that says OutOfScope, of an object that goes on to exist, is one like any other here:
// what left and came back before anybody was told is a Modification, and what is deleted
// after it came back was deleted.
//
// A queue keeps at most two merged events of a key, or three after an event was tried: the
// deletion of the acknowledged object, that of the newest one that was tried, and the current
// one. Up to 64 unmerged events of the collection come on top. If
// one object after the other is tried, deleted and re-created, the deletions of the older
// ones are dropped, and counted in [Stats].
//
// [KeepLast] merges only what is older than the last n events, the oldest first, and
// [KeepAll] nothing; but for a resync of an object of which something waits, which is
// never kept. [Collection.CompactBy] lets a function of yours say which events are not to
// be merged. Whatever merges, the first event of a queue starts from the object that was
// last acknowledged, the last state arrives, and so does the deletion of an object that
// the handler may know of.
//
// # Settling
//
// A queue that was handed out is settled once; the first way counts:
//
//   - Done, or the end of the loop's body, also by continue: acknowledged.
//   - Fail, a panic or [runtime.Goexit] in the body: put back, to be handed out
//     again after a back-off that doubles with each failure of the key. News
//     from the API server ends the wait. A panic is not recovered by a loop; it is by
//     [Collection.Process], where it is an error, as Goexit is.
//   - Fail with an error made by [Permanent]: given up, which is to be acknowledged.
//   - PutBack, break or return without Done: put back in front, not counted as a
//     failure. Collection.Process does it where its context has ended and the error is
//     that of the context.
//
// [Queue.Each] and [Collection.Events] settle event by event: those that are done do not
// come again, whatever happens to the rest. A queue of which nothing is left is
// acknowledged.
//
// The body's end settles: a defer in the surrounding function runs later.
//
// # Closing and draining
//
// [Collection.Close] is the end: it wakes everybody who waits, forgets what waits and
// refuses what comes. [Collection.Drain] waits until consumers are through with what
// there is, and says by key what is left. To end in order, stop what fills the
// collection, drain it, then close it or stop its consumers.
//
// # Concurrency
//
// Everything may be called from any goroutine, and several goroutines may range
// over the queues of one collection. A writer to the cache usually does not wait for consumers: the
// collection buffers up to 64 unmerged events. No lock is held while a loop's body or a
// handler runs, so it may take its time, and write to the collection. A [Compactor] is
// the exception: it runs under the locks of the cache's writer and of the collection. So
// is the predicate of [FollowFiltered], which runs under the lock of the cache's writer.
//
// # Observing
//
// [Collection.Stats] and [Collection.QueueStates] say how a collection is doing. An
// [Observer] is told of each queue that is handed out and settled, for metrics and traces;
// without one nothing is noted for it.
//
// # Errors
//
// [ErrClosed] after [Collection.Close]; [ErrReadOnly] for a write to a collection
// that follows a cache of somebody else's; otherwise the errors of
// [store.Cache]. [PanicError] is a handler's panic or Goexit under [Collection.Process];
// [Reporting] makes a [HandlerError] of it and of every other failure.
// [DrainError] says what was left when draining ended. [CompactionError] is what a
// [Compactor] did wrong, [FilterError] a panic of a predicate; both are found in [Stats].
package eventqueue
