package reflector

import (
	"slices"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// The reflector always filters by its shards, also if the server claims to do so. A server may be
// upgraded or restored, and its replicas may disagree.

// origin tells whether an object is in the shards.
type origin uint8

const (
	unclear origin = iota // the raw bytes do not tell
	domestic
	foreign
)

// sift determines the origin of an object from its bytes. For a foreign object it also returns the
// identity.
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

// siftPartly determines the origin of an undecodable object from its metadata.
func (s *shardSet) siftPartly(format wire.Format, data []byte) origin {
	var m metav1.PartialObjectMetadata
	if s == nil || unmarshal(format, data, &m) != nil {
		return domestic // so that the reflector reports the object
	}
	if s.has(&m) {
		return domestic
	}
	return foreign
}

// siftPage removes objects outside the shards from a page of a client.
func siftPage[T Object](s *shardSet, p *page[T]) {
	if s == nil {
		return
	}
	all := len(p.items)
	p.items = slices.DeleteFunc(p.items, func(object T) bool { return !s.has(object) })
	p.foreign += all - len(p.items)
}

// abroad replaces an event with one for an object outside the shards.
func (e *event[T]) abroad(s *shardSet, key store.Key, version store.Version) {
	*e = event[T]{kind: e.kind, version: version.ResourceVersion, foreign: 1}
	if s.moving() && key.Name != "" {
		e.departed = &departure{key: key, version: version, gone: e.kind == watch.Deleted}
	}
}

// departure describes an object outside the shards that may have been inside before.
type departure struct {
	key     store.Key
	version store.Version
	gone    bool // it was deleted
}

// siftEvent calls abroad for an event of a client's watch if its object is outside the shards.
func siftEvent[T Object](s *shardSet, e *event[T]) {
	if s == nil || e.err != nil || e.cut || e.unchanged != nil || e.foreign > 0 || e.kind == watch.Bookmark {
		return
	}
	if e.lacking != nil {
		// The identity of a rejected object tells only its shard by UID or by namespace.
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
