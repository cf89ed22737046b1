package client

import (
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// origin tells whether an object is in the shards.
type origin uint8

const (
	unclear origin = iota // the raw bytes do not tell
	domestic
	foreign
)

// sift determines the origin of an object from its bytes. For a foreign object it also returns the
// identity.
func sift(s *source.Shards, format wire.Format, data []byte) (origin, wire.Identity) {
	if s == nil {
		return domestic, wire.Identity{}
	}
	if s.By == store.ByOwner {
		owner, ok := wire.PeekOwner(format, data)
		if ok && owner != "" && s.Contains(store.ShardHash(owner)) {
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
	if s.By == store.ByNamespace {
		hash = store.ShardHash(id.Namespace)
	}
	if s.Contains(hash) {
		return domestic, id
	}
	return foreign, id
}

// siftPartly determines the origin of an undecodable object from its metadata.
func siftPartly(s *source.Shards, format wire.Format, data []byte) origin {
	var m metav1.PartialObjectMetadata
	if s == nil || wire.Unmarshal(format, data, &m) != nil {
		return domestic // so that the reflector reports the object
	}
	if s.Has(&m) {
		return domestic
	}
	return foreign
}
