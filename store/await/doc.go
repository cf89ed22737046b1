// Package await waits until a cache shows a change, such as a write of your program.
//
//	pod, err := client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
//	...
//	if err := await.Object(ctx, pods, pod); err != nil {
//		return err
//	}
//	// pods shows this state of the pod, or a later one.
//
// [Version] waits for a resource version, [Object] and [Deletion] wait for a write. To wait for any
// change of an object, use [store.View.WatchKey].
//
// # Guarantees
//
//   - await-A1: [Version] returns nil only when every change up to the version is visible,
//     deletions and added partitions included. A version may never come, so give the context a
//     deadline.
//
// # Concurrency
//
// Every function is safe for concurrent use. A wait follows the cache: see [store.View.Follow]. A
// commit calls each wait, which compares keys and versions under the lock of the cache's writer. A
// wait also takes that lock to follow and to stop, so the end of a context may be noticed one commit
// late.
//
// A function that the cache runs under that lock must not wait, or the cache stops for ever, even
// after the deadline of the wait. These functions are followers, KeyFuncs, index functions, the
// function of a Budget, and the predicates of FollowFiltered, HandleFiltered and KeepIf.
//
// # Errors
//
// A wait that fails returns an [*Error]. It names the version that the cache has reached, and the
// rejected objects that hold the version back.
package await
