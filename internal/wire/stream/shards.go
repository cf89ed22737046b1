package stream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shards is a set of shards with one key. A nil set contains every object.
type Shards struct {
	By  store.ShardKey
	All []store.Shard
}

// Selector returns the shard selector in the text form of the API. It is empty for a nil set.
func (s *Shards) Selector() string {
	if s == nil {
		return ""
	}
	field := map[store.ShardKey]string{store.ByUID: "object.metadata.uid", store.ByNamespace: "object.metadata.namespace"}[s.By]
	ranges := make([]string, len(s.All))
	for i, shard := range s.All {
		to := "0x10000000000000000"
		if shard.To != 0 {
			to = fmt.Sprintf("0x%016x", shard.To)
		}
		ranges[i] = fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", field, shard.From, to)
	}
	return strings.Join(ranges, " || ")
}

// Contains reports whether one of the shards has a hash.
func (s *Shards) Contains(hash uint64) bool {
	return slices.ContainsFunc(s.All, func(shard store.Shard) bool { return shard.Contains(hash) })
}

// Has reports whether an object is in one of the shards.
func (s *Shards) Has(object metav1.Object) bool {
	switch {
	case s == nil:
		return true
	case s.By == store.ByNamespace:
		return s.Contains(store.ShardHash(object.GetNamespace()))
	}
	return s.Contains(store.ShardHash(string(object.GetUID())))
}

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

// isOutside determines from its metadata whether an object is outside of the shards, if a quick look
// at its bytes does not tell. An object without readable metadata counts as inside, so that the
// reflector reports it.
func (s *Shards) isOutside(format wire.Format, data []byte) bool {
	var m metav1.PartialObjectMetadata
	return s != nil && wire.Unmarshal(format, data, &m) == nil && !s.Has(&m)
}
