package reflector

import (
	"slices"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// What comes from the server is sifted by the shards of the reflector, whatever the server
// said: it may be upgraded or restored, and replicas of it may disagree.

// origin is whether an object is in the shards.
type origin uint8

const (
	unclear origin = iota // from its bytes alone
	domestic
	foreign
)

// sift looks at the bytes of an object, and says who it is if it is foreign.
func (s *shardSet) sift(format wire.Format, data []byte) (origin, wire.Identity) {
	if s == nil {
		return domestic, wire.Identity{}
	}
	if s.by == store.ByOwner {
		owner, ok := wire.PeekOwner(format, data)
		if ok && owner != "" && s.contains(store.ShardHash(owner)) {
			return domestic, wire.Identity{}
		}
		if id, plain := wire.Peek(format, data); ok && plain {
			return foreign, id
		}
		return unclear, wire.Identity{}
	}
	id, ok := wire.Peek(format, data)
	if !ok {
		return unclear, id
	}
	hash := store.ShardHash(id.UID)
	if s.by == store.ByNamespace {
		hash = store.ShardHash(id.Namespace)
	}
	if s.contains(hash) {
		return domestic, id
	}
	return foreign, id
}

// siftPartly looks at the metadata of an object that cannot be decoded.
func (s *shardSet) siftPartly(format wire.Format, data []byte) origin {
	var m metav1.PartialObjectMetadata
	if s == nil || unmarshal(format, data, &m) != nil {
		return domestic // which keeps it from being forgotten
	}
	if s.has(&m) {
		return domestic
	}
	return foreign
}

// siftPage takes what is not in the shards out of a page of a client's.
func siftPage[T Object](s *shardSet, p *page[T]) {
	if s == nil {
		return
	}
	all := len(p.items)
	p.items = slices.DeleteFunc(p.items, func(object T) bool { return !s.has(object) })
	p.foreign += all - len(p.items)
}

// abroad makes an event one of an object that is not in the shards.
func (e *event[T]) abroad(s *shardSet, key store.Key, version store.Version) {
	*e = event[T]{kind: e.kind, version: version.ResourceVersion, foreign: 1}
	if s.moving() && key.Name != "" {
		e.departed = &departure{key: key, version: version, gone: e.kind == watch.Deleted}
	}
}

// departure is an object that is not in the shards, and may have been.
type departure struct {
	key     store.Key
	version store.Version
	gone    bool // it was deleted
}

// siftEvent makes an event of a client's watch one of a foreign object, if it is.
func siftEvent[T Object](s *shardSet, e *event[T]) {
	if s == nil || e.err != nil || e.cut || e.unchanged != nil || e.foreign > 0 || e.kind == watch.Bookmark {
		return
	}
	if e.lacking != nil {
		// Only a shard of UIDs or namespaces can be told from what is known of it.
		if s.by == store.ByUID && e.lacking.Version.UID != "" && !s.contains(store.ShardHash(string(e.lacking.Version.UID))) ||
			s.by == store.ByNamespace && e.lacking.Key.Name != "" && !s.contains(store.ShardHash(e.lacking.Key.Namespace)) {
			e.abroad(s, e.lacking.Key, e.lacking.Version)
		}
		return
	}
	if !s.has(e.object) {
		e.abroad(s, store.Key{Namespace: e.object.GetNamespace(), Name: e.object.GetName()},
			store.Version{UID: types.UID(e.object.GetUID()), ResourceVersion: e.object.GetResourceVersion()})
	}
}
