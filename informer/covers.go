package informer

import "github.com/kubereflector/kubereflector/store"

// Covers reports whether the cache would hold any object that there is under a key. It
// returns false if the key is in no scope of an informer made by [NewScoped], or if the scope,
// or the reflector, is restricted to shards: then there may be an object that somebody else is
// responsible for. Selectors do not count.
func (i *Informer[T]) Covers(key store.Key) bool {
	_, scoped := i.feed.(*scopes[T])
	for _, s := range i.feed.sources() {
		if scoped && (s.scope.Cluster != key.Cluster || s.scope.Namespace != "" && s.scope.Namespace != key.Namespace) {
			continue
		}
		if r, ok := s.Feed.(interface{ Shards() []store.Shard }); !ok || len(r.Shards()) == 0 {
			return true
		}
	}
	return false
}
