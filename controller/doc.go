// Package controller runs a handler for changes of objects. A [Controller] is a feed that fills an
// event-queue collection, and workers that empty it. The blog series "Understanding Kubernetes'
// tools/cache package" describes the same Controller; its idea in 50 lines is in
// examples/series/part03_controller.go. Package reconcile builds on it, for informers: it calls a
// function for the keys of objects that changed, or whose related objects changed.
//
// # Usage
//
//	pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
//	r := reflector.New(clientset.CoreV1().Pods("default"), pods)
//	c := controller.New(r.Run, pods, controller.Each(
//		func(ctx context.Context, event eventqueue.Event[*corev1.Pod]) error {
//			...
//			return nil
//		}))
//	err := c.Run(ctx) // until ctx ends
//
// The feed is usually the Run of a reflector, but any function that fills the collection works.
// The handler gets the event queue of one object at a time. [Each] makes a handler from a function
// for single events. With a collection of keys, a controller works like client-go's work queue:
// package reconcile uses it so.
//
// # Guarantees
//
//   - controller-C1: At most one worker at a time calls the handler for one object. The handler
//     gets every event of the object since its last success with that object, merged as the
//     collection's compaction says. The guarantees of package eventqueue hold as well.
//   - controller-C2: If the handler returns an error or panics, the events are retried after a
//     back-off, together with newer ones. The back-off grows with each failure of the object. An
//     event that comes during the failing call does not shorten it, and later ones do so once: see
//     queue-E11. Without that bound, a handler that writes to its object and then fails would have
//     no back-off, because a controller cannot tell its own writes from those of others; package
//     reconcile can. Other objects are not delayed. runtime.Goexit, as in FailNow of a test, counts
//     as a panic.
//   - controller-C3: An event that fails with an error made by [eventqueue.Permanent] is reported
//     and not retried.
//   - controller-C4: Live events of an object go before initial additions and resyncs, except for
//     one object in eight: see [eventqueue.WithPriority]. The events of one object keep their
//     order.
//   - controller-C5: When ctx ends, the feed stops first. The handler then processes the queue
//     until only events in back-off are left, or the drain timeout ends. Run returns after the last
//     call has returned, and its error names the remaining events. After [ErrStopNow], Run skips
//     this drain.
//   - controller-C6: Run may be called again: no unhandled event is lost in between.
//
// # Concurrency
//
// The handler runs on as many goroutines as there are workers. The default is one worker: see
// [WithWorkers]. All methods may be called from any goroutine, but at most one Run at a time.
//
// # Observing
//
// For metrics and traces, observe the collection: see [eventqueue.WithObserver].
//
// # Errors
//
// An error of a handler goes to the logger and to the error handler given by [WithErrorHandler], as
// a [*eventqueue.HandlerError]. For a panic it contains a [*eventqueue.PanicError], with the key
// and the stack. [eventqueue.Collection.Stats] counts failures and shows how far the handler is
// behind. Run returns the error of the feed, and a [*eventqueue.DrainError] if events were left.
// After the drain timeout, the cause of that error is context.DeadlineExceeded.
package controller
