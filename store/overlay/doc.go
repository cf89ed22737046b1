// Package overlay shows a program its own writes before its cache does. The program reports each
// write to an [Overlay] over the cache. The overlay shows the written object until the cache has
// caught up, and reads every other object from the cache. client-go has MutationCache for this.
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
// An [Overlay] is a [store.Reader]. Use [AddIndex] for an index that also shows the writes.
//
// If your code can wait, wait for the cache instead: await.Object needs no second
// reader, and the reconcilers of package controller wait by themselves. An overlay is for code that
// must go on at once, such as an allocator that reads its earlier allocations.
//
// # Guarantees
//
//   - overlay-Y1: A read returns the newer of the cached and the written object, by resource
//     version. After [Overlay.Wrote] returns, and during the life of the write, no read returns an
//     older object. This includes an object that is not in the cache yet.
//   - overlay-Y2: An object that the cache has seen deleted does not come back. This holds for a
//     write that is reported after its object was deleted, or after another object took its name.
//   - overlay-Y3: The overlay forgets a write when its life is over. It forgets the write earlier
//     when the cache holds its object at that version or later, or when the cache's resource
//     version has reached it. It also does so when the object is deleted or re-created, or when the
//     cache goes back to an older history.
//   - overlay-Y4: An index read of an overlay returns the written objects that have the value. It
//     leaves out cached objects whose newer state no longer has it.
//   - overlay-Y5: Reads run in the order of keys. An iteration sees one state of the cache and the
//     writes.
//
// For overlay-Y2 the overlay uses the ObservedVersion of each [store.Commit]: the resource version
// up to which the writer of the cache has seen every change. The overlay ignores a write up to that
// version, whether its object is in the cache, was deleted, or never got there. It tracks this
// version for each partition of a cache; the version of a shard counts for the objects of that
// shard only. A rejected object holds back the cache's own version, but not this one (store-S5).
// Some deletions have no version: the overlay remembers their UIDs until the next version comes. In
// a cache that never has a Replace, it remembers them for ever. An object whose scope was dropped
// does not count as deleted.
//
// # Limits
//
// The overlay shows an object that a selector excludes from the cache until the cache's resource
// version has reached it, by a bookmark at the latest. An overlay receives no deletions from the
// program. It shows an object until the cache reports its deletion. If a delete returns the object
// with a deletion timestamp, pass the object to [Overlay.Wrote].
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Nothing runs in the background. An overlay
// follows its cache: a commit costs one lookup for each change, and one comparison for each pending
// write. Without pending writes, a read costs one atomic load more than a read of the cache.
//
// # Errors
//
// [Overlay.Wrote] returns an error for an object that it cannot compare with the cached one, and
// does not show it: a *await.Error, or [ErrNoUID].
package overlay
