package informer

import "github.com/kubereflector/kubereflector/store"

// Covers reports whether the cache would hold an existing object under a key. It returns false
// if the key is in no scope of an informer of package scoped, or in a scope whose first list is
// not complete. It also returns false if the scope, or the reflector, is restricted to shards:
// another process may be responsible for the object. Covers ignores selectors.
func (i *Informer[T]) Covers(key store.Key) bool {
	for _, s := range i.feed.Sources() {
		scoped := s.Gone != nil && s.Selector == ""
		if scoped && (!s.IsSynced() || s.Scope.Cluster != key.Cluster || s.Scope.Namespace != "" && s.Scope.Namespace != key.Namespace) {
			continue
		}
		if r, ok := s.Feed.(interface{ Shards() []store.Shard }); !ok || len(r.Shards()) == 0 {
			return true
		}
	}
	return false
}
