// Package eventqueue turns the commits of a cache into events. It keeps one queue of events for
// each object.
//
// An [Event] says what happened to an object: addition, modification or deletion, with its prior
// state. A [Queue] holds the unacknowledged events of ONE object. A [Collection] holds the queues and
// delivers them to consumers. In the blog series "Understanding Kubernetes'
// tools/cache package" these are Event, EventQueue and EventQueueCollection, the Java names for
// client-go's Delta, Deltas and DeltaFIFO. Their idea in 80 lines is in
// examples/series/part04_collection.go.
//
// An Event is not the Event of the Kubernetes API (corev1.Event), which is a resource like any
// other.
//
// # Usage
//
// A collection is a [store.Store]. A reflector fills it, and your program ranges over its queues.
//
//	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
//	go reflector.New(client.CoreV1().ConfigMaps("default"), configMaps).Run(ctx)
//	for queue := range configMaps.Queues(ctx) {
//		for event := range queue.Events() {
//			...
//		}
//	}
//
// The end of the loop's body acknowledges the queue. Call [Queue.Fail] to retry the queue later.
// [Collection.Process] does the same with several workers. [Collection.Consume] yields single
// events, and [Collection.ProcessEach] calls a function for each event. All of them build on
// [Collection.Take]. Call Take directly to settle queues with [Queue.Done], [Queue.Fail] and
// [Queue.Release].
//
// [New] gives the collection a cache of its own; read it through [Collection.Cache]. [Follow]
// creates a collection over an existing cache, which may have other followers. An informer serves
// many subscribers in this way. [FollowFiltered] queues events only for the objects that a
// predicate selects. An object that enters the selection is an Addition; an object that leaves it
// is a Deletion.
//
// # Guarantees
//
//   - queue-E1: The events of an object come in the order in which they happened. Objects of
//     the same priority come in the order of their first event.
//   - queue-E2: At most one queue of a key is in flight at a time: delivered, and not settled yet.
//     Queues of different keys may be in flight together.
//   - queue-E3: The Prior of a queue's first event is the object that was last acknowledged.
//   - queue-E4: Events that were not acknowledged are delivered again, together with the events
//     that came meanwhile, unless a [Permanent] error gave them up.
//   - queue-E5: The cache is never older than a delivered event. The cache may be newer.
//   - queue-E6: A new UID under an old key is a Deletion and an Addition.
//   - queue-E7: An object that a relist found unchanged causes no event, and
//     [Collection.Resync] never brings back a deleted object or an older state.
//   - queue-E8: [Collection.Synced] closes once every object of the first list was delivered
//     and settled. A failure settles as well.
//   - queue-E9: A Deletion says OutOfScope if the scope of the object was dropped. For any other
//     Deletion, the object was deleted, a list lacked it, or it no longer matches a selector or a
//     predicate. In the last case it still exists, and the event looks like that of a deleted object.
//   - queue-E10: A key in back-off or with a delay has one due time, the earliest, however often
//     the key fails or is added. How often an addition may come before the end of a back-off is
//     queue-E11.
//   - queue-E11: A failed key waits for the end of its back-off. An event that came before the
//     failure, so during the failed attempt, does not shorten the wait. A later live event does,
//     and so does the end of a delay of AddAfter, but only once: if that attempt fails too, the end
//     of the back-off stays where it was, and all further events wait for it. So a key that fails
//     is handled at most twice in a back-off, however often its object changes, and no event waits
//     longer than the back-off. If the error has the Retry-After of an API server, the back-off is
//     at least that long, and nothing shortens it.
//
// # Order
//
// Objects with live events come before objects that have only events of the first list or of a
// resync. One queue in eight still belongs to the second group, so that it does not starve. Within
// a group, objects come in the order of their first event. Under [WithPriority](false), which is
// the default of an informer's subscribers, there is only one group.
//
// Break, return and [Queue.Release] put an object back in front of its group. A failed object goes
// to the end of its group when its back-off is over. If [Queue.Each] ends with a [Permanent] error, the
// later events of the object go to the end of the group at once.
//
// # Which events a queue keeps
//
// [KeepLatest], the default, merges the events of an object, so that memory depends on the number
// of keys, however long a handler stalls. Its documentation has the table of merges. [KeepAll]
// keeps every event until it is acknowledged, as the series' EventQueue does. [Collection.KeepIf]
// selects single events that are not merged. A resync of an object with a waiting event is dropped.
//
// Under every compaction, the first event of a queue starts from the object that was last
// acknowledged, and the handler receives the last state. The handler also receives the deletion of
// every object that it may know.
//
// # Settling
//
// Each delivered queue is settled once; the first call counts:
//
//   - Done, or the end of the loop's body, also by continue: the queue is acknowledged.
//   - Fail, a panic or [runtime.Goexit] in the body: the queue is retried after a back-off
//     that doubles with each failure of the key. A live event of the object may end the wait
//     early, once in each back-off (queue-E11). A loop does not recover a panic.
//     [Collection.Process] recovers it, and reports a panic or Goexit as an error.
//   - Fail with an error made by [Permanent]: the queue is given up, and none of its events is retried.
//     If Each handled the queue, only the event of the error is given up, and the later ones wait again.
//   - Release, break or return without Done: the queue goes back to the front, and no failure is
//     counted. Collection.Process does this when its context has ended and the handler
//     returned the context's error.
//
// [Queue.Each] and [Collection.Consume] settle event by event: a completed event is not
// delivered again, whatever happens to the rest. A queue without remaining events is acknowledged.
//
// The end of the body settles the queue. A defer in the surrounding function runs later.
//
// # Work queues
//
// A reconciler works on keys and reads the objects from caches. Its work queue is a collection of
// keys, which [Add] fills:
//
//	keys := eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil },
//		eventqueue.WithBackoff(5*time.Millisecond, 5*time.Minute))
//	...
//	eventqueue.Add(keys, owner) // for each event of a related object, or AddResync if it is Initial
//	...
//	keys.Process(ctx, 4, func(ctx context.Context, queue *eventqueue.Queue[store.Key]) error {
//		result, err := reconcile(ctx, queue.Key())
//		if err == nil && result.RequeueAfter > 0 {
//			eventqueue.AddAfter(keys, queue.Key(), result.RequeueAfter)
//		}
//		return err
//	}, report)
//
// The collection does what client-go's package workqueue does:
//
//	workqueue                  here
//	Add, AddAfter              Add, AddAfter
//	AddRateLimited, Done       the handler returns an error, or Queue.Fail
//	Forget, Done               the handler returns nil, or Queue.Done
//	NumRequeues                Queue.Attempt, which counts from 1
//	priority                   live keys come first: see WithPriority
//	ShutDownWithDrain          Drain, then Close
//	metrics                    Stats and WithObserver
//
// Live keys come before those of [AddResync]. A live key has an event of origin Watch, and any other key an
// event of origin Resync. A failed key keeps its priority. A live key without a delay ends a back-off
// early, but only once (queue-E11), where client-go's Add does that each time. In client-go, a delayed
// addition comes in addition to an earlier one; here a key has one due time, the earliest. A handler
// that must not work on a key now calls [Queue.Hold].
//
// # Closing and draining
//
// [Collection.Close] wakes all waiting callers, discards the waiting events and rejects new ones.
// [Collection.Drain] waits until consumers have settled all ready queues, and reports the remaining
// events by key. For an orderly end, first stop the reflector or other writer, then drain the
// collection, and then close it or stop its consumers. Calls of the handler may still end after a
// Drain that ran into its deadline, so ask [Collection.Left] once the consumers have ended.
//
// # Concurrency
//
// All methods are safe for concurrent use except [Queue.Each] and [Queue.Hold], and several
// goroutines may range over the queues of one collection. A writer to the cache rarely waits for
// consumers, because it puts up to 64 events into a buffer that has no lock in common with them.
// The collection holds no lock while a loop's body or a handler runs. So the body or handler may
// be slow, and may write to the collection. The predicates of [FollowFiltered] and
// [Collection.KeepIf] run under the lock of the cache's writer.
//
// # Observing
//
// [Collection.Stats] and [Collection.Pending] report the state of a collection. The collection
// calls the function of [WithObserver] for each queue that it delivers. Use it for metrics and
// traces.
//
// # Code
//
// Read the files by question:
//
//   - How does a write become an event? follower.go, from follower.Commit to the buffer.
//   - How does the event reach a consumer that may sleep? The comment above [Collection] in
//     collection.go explains the way with its costs, and enqueueLocked in the same file makes the
//     event wait for its key.
//   - How does a consumer take a queue, and how does it give it back? take.go, from takeLocked, which asks
//     nextLocked for the key whose turn it is, to settleLocked; queue.go has what a consumer holds.
//   - How does a handler run, event by event, and what is its failure? process.go
//   - Where does a key wait for its turn, and how is it delayed? order.go
//   - What is kept, and what is merged? merge.go
//   - What is going on, what is left, and when is everything done? stats.go
//
// # Errors
//
// A closed collection returns [ErrClosed]. A write to a collection that follows another cache fails
// with [ErrReadOnly]. All other errors of writes come from [store.Cache]. [PanicError] reports a
// handler's panic or Goexit under [Collection.Process], which reports every failure as a
// [HandlerError]. [DrainError] lists the keys that remained when draining ended. [Stats] holds the
// last panic of a predicate.
package eventqueue
