// Package eventqueuetest lets tests say which events they expect.
//
// # Usage
//
// A [Recorder] consumes an event-queue collection, or a subscription of an informer,
// for a test that runs in a bubble of [testing/synctest]:
//
//	synctest.Test(t, func(t *testing.T) {
//		pods := eventqueue.New(store.ObjectKey[*corev1.Pod])
//		recorder := eventqueuetest.Record(t, pods)
//
//		pods.Add(first)
//		pods.Update(second)
//		recorder.Expect(store.Key{Namespace: "default", Name: "web"},
//			eventqueuetest.Added(first), eventqueuetest.Modified(first, second))
//		recorder.ExpectNothing()
//	})
//
// # Guarantees
//
//   - Nothing sleeps. An expectation waits until every other goroutine of the bubble
//     waits for something, and so until all that can happen without the clock has
//     happened; then it looks. That nothing came is thus as certain as that something
//     did.
//   - Events of one object are expected in their order; objects do not wait for each
//     other.
//   - An event that was expected is acknowledged, and forgotten by the recorder.
//
// # Concurrency
//
// A recorder belongs to the goroutine of its test. It takes events from the collection
// only while an expectation is being checked.
//
// # Errors
//
// An expectation that is not met is an error of the test, which goes on. The error shows
// what came. The events of the key are then forgotten, so that one mistake is reported
// once.
package eventqueuetest
