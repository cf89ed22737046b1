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

// excludes reports whether the bytes of an object show plainly that it is in none of the shards, and returns
// its identity. [Item.Filter] sees to all other objects.
func (s *Shards) excludes(format wire.Format, data []byte) (id wire.Identity, yes bool) {
	if s == nil {
		return id, false
	}
	id, ok := wire.Peek(format, data)
	text := id.UID
	if s.By == store.ByNamespace {
		text = id.Namespace
	}
	return id, ok && !s.Contains(store.ShardHash(text))
}
