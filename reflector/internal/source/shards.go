package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// The reflector always filters by its shards, also if the server claims to do so. A server may be
// upgraded or restored, and its replicas may disagree.

// Sharding says whether the server or the reflector drops objects outside the reflector's shards:
// see [reflector.WithShard].
type Sharding string

const (
	// NotSharded means that the reflector has no shards.
	NotSharded Sharding = ""
	// ShardingUnknown means that the server has sent no evidence yet.
	ShardingUnknown Sharding = "unknown"
	// ShardedByServer means that the server said that it filters, or that it has sent only objects
	// in the shards since the last list began.
	ShardedByServer Sharding = "server"
	// ShardedByClient means that the server did not get the selector or ignored it. The server
	// sends all objects, and the reflector drops those outside the shards, usually before it
	// decodes them.
	ShardedByClient Sharding = "client"
)

// Shards is a set of shards with one key. A nil set contains every object.
type Shards struct {
	By  store.ShardKey
	All []store.Shard
}

// Selector returns the shard selector in the text form of the API. It is empty if the API cannot
// express the shards.
func (s *Shards) Selector() string {
	field := map[store.ShardKey]string{store.ByUID: "object.metadata.uid", store.ByNamespace: "object.metadata.namespace"}
	if s == nil || field[s.By] == "" {
		return ""
	}
	ranges := make([]string, len(s.All))
	for i, shard := range s.All {
		to := "0x10000000000000000"
		if shard.To != 0 {
			to = fmt.Sprintf("0x%016x", shard.To)
		}
		ranges[i] = fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", field[s.By], shard.From, to)
	}
	return strings.Join(ranges, " || ")
}

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
	case s.By == store.ByUID:
		return s.Contains(store.ShardHash(string(object.GetUID())))
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && s.Contains(store.ShardHash(string(owner.UID)))
}

// Moves reports whether an object may enter and leave the shards during its life.
func (s *Shards) Moves() bool { return s.By == store.ByOwner }

// FilterPage removes objects outside the shards from a page of a client.
func FilterPage[T Object](s *Shards, p *Page[T]) {
	if s == nil {
		return
	}
	all := len(p.Items)
	p.Items = slices.DeleteFunc(p.Items, func(object T) bool { return !s.Has(object) })
	p.OutOfShard += all - len(p.Items)
}

// MarkOut replaces an event with one for an object outside the shards.
func (e *Event[T]) MarkOut(s *Shards, key store.Key, version store.Version) {
	*e = Event[T]{Type: e.Type, ResourceVersion: version.ResourceVersion, OutOfShard: 1}
	if s.Moves() && key.Name != "" {
		e.Left = &Departure{Key: key, Version: version, Deleted: e.Type == watch.Deleted}
	}
}

// Departure describes an object outside the shards that may have been inside before.
type Departure struct {
	Key     store.Key
	Version store.Version
	Deleted bool // it was deleted
}

// filterEvent calls abroad for an event of a client's watch if its object is outside the shards.
func filterEvent[T Object](s *Shards, e *Event[T]) {
	if s == nil || e.Err != nil || e.Cut || e.Held != nil || e.OutOfShard > 0 || e.Type == watch.Bookmark {
		return
	}
	if e.Rejection != nil {
		// The identity of a rejected object tells only its shard by UID or by namespace.
		if s.By == store.ByUID && e.Rejection.Version.UID != "" && !s.Contains(store.ShardHash(string(e.Rejection.Version.UID))) ||
			s.By == store.ByNamespace && e.Rejection.Key.Name != "" && !s.Contains(store.ShardHash(e.Rejection.Key.Namespace)) {
			e.MarkOut(s, e.Rejection.Key, e.Rejection.Version)
		}
		return
	}
	if !s.Has(e.Object) {
		e.MarkOut(s, store.Key{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()},
			store.Version{UID: types.UID(e.Object.GetUID()), ResourceVersion: e.Object.GetResourceVersion()})
	}
}
