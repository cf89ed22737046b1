package stream

import (
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// origin tells whether an object is in the shards.
type origin uint8

const (
	unclear origin = iota // the raw bytes do not tell
	inShard
	outOfShard
)

// originOf determines the origin of an object from its bytes. For an object outside the shards it also
// returns the identity.
func originOf(s *Shards, format wire.Format, data []byte) (origin, wire.Identity) {
	if s == nil {
		return inShard, wire.Identity{}
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
		return inShard, id
	}
	return outOfShard, id
}

// originByMetadata determines the origin of an undecodable object from its metadata.
func originByMetadata(s *Shards, format wire.Format, data []byte) origin {
	var m metav1.PartialObjectMetadata
	if s == nil || wire.Unmarshal(format, data, &m) != nil {
		return inShard // so that the reflector reports the object
	}
	if s.Has(&m) {
		return inShard
	}
	return outOfShard
}
