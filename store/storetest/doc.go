// Package storetest tests a store against the contract of package store. [Run] is a suite of tests
// for any [store.Store] and a [store.Reader] of its objects. [RunBatches] is the suite for a
// [store.BatchStore].
//
// # Usage
//
// Write a test next to your store. The test makes a store of [Object] values, which have the
// metadata of a Kubernetes object and nothing else:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
//			s := mystore.New(store.ObjectKey[*storetest.Object])
//			return s, s
//		})
//	}
//
// Use [ClusterKey] instead of [store.ObjectKey] for a store that holds objects of several clusters.
// To test a decorator, pass the store behind it as the Reader. Run the test with the race detector,
// too: the suite reads while it writes.
//
// # Tests
//
//   - Each clause of the contract has a subtest with its name. A failure prints the writes before
//     it, the result of the read, and the clause.
//   - [RunBatches] adds clauses about batches. A store without its own batches fails them.
//   - One more subtest writes at random and compares every read with a plain map. It uses
//     pgregory.net/rapid, and accepts its flags: -rapid.checks=10000 runs longer, and a failure
//     prints the flag that repeats it.
//
// # Requirements for a store
//
//   - Each call of open returns a new, empty store and its Reader.
//   - A write is visible when the method returns.
//   - The Reader is safe for use from any goroutine while one goroutine writes. The body of an
//     iteration may read and write.
//   - The suite compares objects by their content, so a store may keep copies. Only an object that
//     a Replace finds unchanged must keep its pointer.
//   - A store cannot recognise a rejected object without a name when it comes again. So only a
//     Replace without rejections advances the resource version after it.
package storetest
