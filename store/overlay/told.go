package overlay

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// told is what a cache was told, whether it could store it or not. The zero told is
// nothing.
type told struct {
	// seen is the resource version up to which everything was told of a place.
	seen map[place]string
	// gone are deletions of which no version was told, until seen moves.
	gone map[grave]bool
}

// place is the whole of a cache, or a partition of it.
type place struct {
	scope store.Scope
	whole bool
}

// contains reports whether an object belongs to a place: of shards only one speaks for it.
func (p place) contains(key store.Key, uid types.UID) bool {
	if p.whole {
		return true
	}
	if p.scope.Cluster != key.Cluster || p.scope.Namespace != "" && p.scope.Namespace != key.Namespace {
		return false
	}
	shard := p.scope.Shard
	if shard.By == store.ByNamespace {
		return shard.Contains(store.ShardHash(key.Namespace))
	}
	return shard.Contains(store.ShardHash(string(uid)))
}

// grave is an object that is gone. One without a UID stands for every object that its
// key has had.
type grave struct {
	key store.Key
	uid types.UID
}

// of reports whether the cache was told of a state of an object or of a later one, or of
// its end.
func (t *told) of(key store.Key, version store.Version) bool {
	if t.gone[grave{key, version.UID}] || t.gone[grave{key: key}] {
		return true
	}
	for where, seen := range t.seen {
		if where.contains(key, version.UID) && reached(seen, version.ResourceVersion) {
			return true
		}
	}
	return false
}

// up notes that everything up to a resource version was told, and reports whether that
// is of an older history than what was told before.
func (t *told) up(where place, to string) (lowered bool) {
	before, ok := t.seen[where]
	if before == to {
		return false
	}
	if t.seen == nil {
		t.seen = map[place]string{}
	}
	t.seen[where] = to
	for one := range t.gone {
		if where.contains(one.key, one.uid) {
			delete(t.gone, one)
		}
	}
	return ok && !reached(to, before)
}

// bury notes a deletion without a version.
func (t *told) bury(key store.Key, uid types.UID) {
	if t.gone == nil {
		t.gone = map[grave]bool{}
	}
	t.gone[grave{key, uid}] = true
}
