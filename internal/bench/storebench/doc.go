// Package storebench measures store.Cache beside the indexer of client-go's tools/cache: the
// subcommand "store".
//
// Both hold the same 100,000 pods of package objects. A pod has 2.7 kB, less than real pods, which
// would make collections slower on both sides. Both keep two indexes, by namespace and by node. A
// case begins with caches that one Replace filled in the order of keys. No update moves a pod to
// another node or namespace, because hardly any does in a cluster. Both caches have a shortcut for
// that.
//
// The benchmark measures the cost for a caller. A point read builds its key from the caller's
// namespace and name, and uses the result as a pod. The strings of a key are the strings of the
// object, as in a key from an event, an index or a queue. In the cases named foreign, and in all
// updates, the strings share no memory with the cache, since they come from the wire or from
// another object. The benchmark does not read the pods themselves: that would cost the same on both
// sides.
//
// Garbage is collected before each round and not within it. Walks of all pods are the exception:
// they are many enough to pay for their garbage. An update's garbage is mostly the old pod, which
// neither cache can avoid.
package storebench
