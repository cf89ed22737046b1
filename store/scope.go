package store

import (
	"fmt"
	"math/bits"
)

// Scope is a part of a cache: one namespace of one cluster, or a whole cluster if Namespace is
// empty. Keys without a cluster belong to the empty Cluster.
type Scope struct {
	Cluster   string
	Namespace string
}

// String returns "cluster|namespace", without empty parts.
func (s Scope) String() string {
	switch {
	case s.Cluster == "" && s.Namespace == "":
		return "all namespaces"
	case s.Cluster == "":
		return "namespace " + s.Namespace
	case s.Namespace == "":
		return "cluster " + s.Cluster
	}
	return "namespace " + s.Cluster + "|" + s.Namespace
}

// Contains reports whether a key is in the scope.
func (s Scope) Contains(key Key) bool {
	return key.Cluster == s.Cluster && (s.Namespace == "" || key.Namespace == s.Namespace)
}

// overlaps reports whether an object may be in both scopes.
func (s Scope) overlaps(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == other.Namespace || s.Namespace == "" || other.Namespace == "")
}

// ShardKey says which value of an object is hashed to find its shard.
type ShardKey uint8

const (
	// ByUID spreads objects evenly. An object never moves to another shard. If it is deleted and created
	// anew under the same name, the new object is usually in another shard.
	ByUID ShardKey = iota
	// ByNamespace keeps all objects of a namespace in one shard, also of several resources. Few or
	// large namespaces make uneven shards.
	ByNamespace
)

// String returns "UIDs" or "namespaces".
func (k ShardKey) String() string { return nameOf("ShardKey", k, "UIDs", "namespaces") }

// Shard is the range of hashes from From up to, but not including, To. By says which value of an
// object is hashed. A To of 0 is the end of all hashes, so the zero Shard contains every object.
//
// The hash is the one by which API servers select shards: 64 bits of FNV-1a.
type Shard struct {
	By       ShardKey
	From, To uint64
}

// Shards returns n shards of equal size, in order, that cover all hashes. It returns one shard if n
// is less than 1. The same n gives the same shards in every process.
func Shards(by ShardKey, n int) []Shard {
	shards := make([]Shard, max(n, 1))
	for i := range shards {
		// i * 2^64 / n; the last one ends at 2^64, which is 0.
		from, _ := bits.Div64(uint64(i), 0, uint64(len(shards)))
		shards[i] = Shard{By: by, From: from}
		if i > 0 {
			shards[i-1].To = from
		}
	}
	return shards
}

// IsEverything reports whether the shard contains every object.
func (s Shard) IsEverything() bool { return s.From == 0 && s.To == 0 }

// Contains reports whether a hash is in the shard: see [ShardHash].
func (s Shard) Contains(hash uint64) bool { return s.From <= hash && hash <= s.last() }

// last is the last hash of the shard. In an empty shard it is before From.
func (s Shard) last() uint64 { return s.To - 1 }

// String returns the hashed value, and the first and the last hash.
func (s Shard) String() string {
	return fmt.Sprintf("%v %016x-%016x", s.By, s.From, s.last())
}

// ShardHash returns the hash of a shard key's value: the UID or the namespace of an object.
func ShardHash[V string | []byte](value V) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * 1099511628211
	}
	return hash
}
