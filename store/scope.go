package store

import (
	"fmt"
	"math/bits"
)

// Scope is a part of a cache: one namespace of one cluster, or a whole cluster if Namespace is empty.
// Keys without a cluster belong to the empty Cluster. With a Shard, the scope has only the objects of
// that shard.
type Scope struct {
	Cluster   string
	Namespace string
	Shard     Shard
}

// String returns "cluster|namespace" and the shard, without what is empty.
func (s Scope) String() string {
	place := "namespace " + s.Cluster + "|" + s.Namespace
	switch {
	case s.Cluster == "" && s.Namespace == "":
		place = "all namespaces"
	case s.Cluster == "":
		place = "namespace " + s.Namespace
	case s.Namespace == "":
		place = "cluster " + s.Cluster
	}
	if s.Shard.whole() {
		return place
	}
	return place + ", " + s.Shard.String()
}

// contains reports whether an object under a key may be in the scope, and is if the scope
// has no shard.
func (s Scope) contains(key Key) bool {
	return key.Cluster == s.Cluster && (s.Namespace == "" || key.Namespace == s.Namespace)
}

// covers reports whether everything in another scope is in this one.
func (s Scope) covers(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == "" || s.Namespace == other.Namespace) && s.Shard.covers(other.Shard)
}

// overlaps reports whether something may be in both scopes.
func (s Scope) overlaps(other Scope) bool {
	return s.Cluster == other.Cluster && (s.Namespace == other.Namespace || s.Namespace == "" || other.Namespace == "") &&
		s.Shard.overlaps(other.Shard)
}

// ShardKey says which value of an object is hashed to find its shard.
type ShardKey uint8

const (
	// ByUID spreads objects evenly. An object never moves to another shard. If it is deleted and created
	// anew under the same name, the new object is usually in another shard.
	ByUID ShardKey = iota
	// ByNamespace keeps a namespace together, so that objects of several resources which
	// belong to each other are in one shard. Few or large namespaces make uneven shards.
	ByNamespace
	// ByOwner hashes the UID of the controller owner: an object is in the shard in which its owner is
	// [ByUID]. An object without a controller is in no shard. No API server can select by it, and no
	// [Partition] can have such a shard.
	ByOwner
)

// String returns "UIDs", "namespaces" or "owners".
func (k ShardKey) String() string {
	switch k {
	case ByUID:
		return "UIDs"
	case ByNamespace:
		return "namespaces"
	case ByOwner:
		return "owners"
	}
	return fmt.Sprintf("ShardKey(%d)", uint8(k))
}

// Shard is a range of hashes, from From to below To. By says which value of an object is hashed.
// A To of 0 is the end of all hashes, so that the zero Shard has everything.
//
// The hash is the one by which API servers select shards: 64 bits of FNV-1a.
type Shard struct {
	By       ShardKey
	From, To uint64
}

// Shards returns n shards of equal size that have everything between them, in order; one
// if n is less than that. The same n gives the same shards in every process.
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

// IsEverything reports whether no hash is outside of the shard. The shards of [ByOwner]
// lack objects without a controller all the same.
func (s Shard) IsEverything() bool { return s.From == 0 && s.To == 0 }

// Contains reports whether a hash is in the shard: see [ShardHash].
func (s Shard) Contains(hash uint64) bool { return s.From <= hash && hash <= s.last() }

// last is the last hash of the shard; of one that is empty it is before From.
func (s Shard) last() uint64 { return s.To - 1 }

// String returns what is hashed, and the first and the last hash.
func (s Shard) String() string {
	return fmt.Sprintf("%v %016x-%016x", s.By, s.From, s.last())
}

// whole reports whether everything there is is in the shard.
func (s Shard) whole() bool { return s.IsEverything() && s.By != ByOwner }

// covers reports whether everything in another shard is certain to be in this one.
func (s Shard) covers(other Shard) bool {
	return s.whole() || s.By == other.By && s.From <= other.From && other.last() <= s.last()
}

// overlaps reports whether something may be in both shards.
func (s Shard) overlaps(other Shard) bool {
	return s.By != other.By || s.From <= other.last() && other.From <= s.last()
}

// ShardHash returns the hash of what says which shard an object is in: its UID, its
// namespace, or the UID of its owner, as the shard's By says.
func ShardHash[V string | []byte](value V) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * 1099511628211
	}
	return hash
}
