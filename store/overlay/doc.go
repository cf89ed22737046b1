// Package overlay shows a program its own writes before its cache does. An [Overlay]
// lies over a cache: what the program tells it to have written is read from it until the
// cache has caught up, and everything else from the cache. It is what client-go's
// MutationCache is for.
//
// # Usage
//
//	pods := overlay.New(inf.Cache(), 0)
//	defer pods.Close()
//	...
//	updated, err := client.Update(ctx, pod, metav1.UpdateOptions{})
//	...
//	err = pods.Wrote(updated)
//	pod, ok := pods.Get(key) // updated, or something newer
//
// An [Overlay] is a [store.Reader]. An index that is to show the writes, too, is added by
// [AddIndex].
//
// Those who can wait rather wait for the cache: [store.View.WaitForObject] needs no
// second place to read from, and the reconcilers of package controller wait by themselves.
// An overlay is for those who go on at once, such as one that allocates from what it reads.
//
// # Guarantees
//
//   - Y1. A read gives the newest of what the cache holds and what was written, by
//     resource version. After [Overlay.Wrote] has returned, no read goes back behind that
//     write during its life; one that is not in the cache yet is there as well.
//   - Y2. Nothing that the cache has seen deleted comes back, whatever is told afterwards:
//     not by a write that is reported after its object was deleted, nor after another
//     object took its name.
//   - Y3. A write is forgotten when the cache holds its object at that version or later,
//     when the cache's resource version has reached it, when the object is deleted or
//     re-created, when the cache goes back to an older history, and when its life is
//     over, whichever comes first.
//   - Y4. An index read of an overlay has the written objects that have the value, and
//     leaves out cached objects whose newer state has it no more.
//   - Y5. Reads run in the order of keys. A walk is of one state of the cache and of the
//     writes together.
//
// How Y2 is kept: each commit says up to which resource version its writer has told
// everything (see [store.Commit], ObservedVersion). A write up to there is no news, whether its
// object is in the cache, was deleted, or never got there. That holds for each partition
// of a cache, of which one that is a shard speaks for its own objects alone, and while a
// rejected object holds the cache's own version up (store-S5). A deletion
// whose version nobody told is remembered by its UID until the next one is: in a cache
// that never has a Replace, that is for good. What left, because its scope was dropped,
// was not deleted.
//
// # What it does not know
//
// An object that a selector keeps out of the cache is shown until the cache's resource
// version has reached it, by a bookmark at the latest. Deletions are not told to an
// overlay: an object is there until the cache says otherwise, unless the server returned
// it with a deletion timestamp, and that was told as a write.
//
// # Concurrency
//
// Every function and method may be called from any goroutine. Nothing runs in the
// background. An overlay follows its cache, so a commit costs it a lookup for each change
// and one comparison for each write that the cache has not caught up with. As long as
// there is none, reading costs one atomic load more than reading the cache.
//
// # Errors
//
// [Overlay.Wrote] returns an error for an object that cannot be compared with the
// cache's, which is then not shown: a [*store.WaitError], or [ErrNoUID].
package overlay
