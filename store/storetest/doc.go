// Package storetest holds a store to its contract: [Run] is a suite of tests that
// any [store.Store], with the [store.Reader] of what it holds, has to pass, and
// [RunBatches] is that of a [store.BatchStore].
//
// # Usage
//
// Write a test beside your store. It makes a store of [Object] values, which have
// the metadata of a Kubernetes object and nothing else:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
//			s := mystore.New(store.ObjectKey[*storetest.Object])
//			return s, s
//		})
//	}
//
// Use [ClusterKey] instead of [store.ObjectKey] for a store that holds objects of
// several clusters. A decorator is tested with the store behind it as the Reader.
// Run it with the race detector, too: the suite reads while it writes.
//
// # What is tested
//
//   - One subtest for each clause of the contract, named after it. A failure says
//     what was written before, what was read, and what the contract says.
//   - With [RunBatches], clauses about batches as well. A store without batches of
//     its own fails them.
//   - One more subtest that writes at random and compares everything that can be
//     read with a plain map. It uses pgregory.net/rapid, whose flags apply:
//     -rapid.checks=10000 looks longer, and a failure prints the flag that
//     repeats it.
//
// # What is asked of a store
//
//   - Both come to a test fresh and empty, at each call of open.
//   - A write can be read when the call that made it has returned.
//   - The Reader may be called from any goroutine while one goroutine writes, and
//     from the body of a walk, which may write as well.
//   - Objects are compared by what is in them, so a store may keep copies. Only
//     the object that a Replace finds unchanged has to be the same pointer as
//     before.
//   - A rejected object without a name cannot be recognised when it comes again,
//     so only a Replace without rejections lets the resource version go on.
package storetest
