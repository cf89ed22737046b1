package overlay

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// told records which changes the cache has received, whether it could store them or not.
type told struct {
	// seen is, for each place, the resource version up to which the cache has received every
	// change.
	seen map[place]string
	// gone has deletions without a known version. They stay until seen changes.
	gone map[grave]bool
}

// place is the whole of a cache, or a partition of it.
type place struct {
	scope store.Scope
	whole bool
}

// contains reports whether an object belongs to a place. An object belongs to only one shard.
func (p place) contains(key store.Key, uid types.UID) bool {
	return p.whole || p.scope.Contains(key, store.Version{UID: uid})
}

// grave identifies a deleted object. Without a UID it stands for every object that the key has had.
type grave struct {
	key store.Key
	uid types.UID
}

// of reports whether the cache has received this state of an object, a later state, or its
// deletion.
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

// up records that the cache has received every change up to a resource version. It reports whether
// the version is lower than before, so that the history is an older one.
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

// bury records a deletion without a version.
func (t *told) bury(key store.Key, uid types.UID) {
	if t.gone == nil {
		t.gone = map[grave]bool{}
	}
	t.gone[grave{key, uid}] = true
}
