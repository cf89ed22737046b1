// Package storebench measures store.Cache beside the indexer of client-go's tools/cache: the subcommand "store".
//
// Both hold the same 100,000 pods of package objects, 2.7 kB each: less than real pods, which would make
// collections slower on both sides. Both keep two indexes, by namespace and by node. A case begins with caches that were filled by one Replace, in the
// order of keys. No update moves a pod to another node or namespace, because hardly any does in a cluster; both caches have a shortcut for that.
//
// What is measured is what a caller pays: the key of a point read is built from the namespace and the name that a caller has, and the results are used
// as pods. The strings of a key are those of the object, as in one that an event, an index or a queue hands out; in the cases named foreign, and in
// all that is updated, they share no memory with what the cache holds, since they come from the wire or from another object. The pods themselves are
// not looked at: that would cost the same on both sides.
//
// Garbage is collected before each round and not within it, except in walks of all pods, which are many enough to pay for what they leave behind. An
// update's garbage is mostly the old pod, which neither cache can do anything about.
package storebench
