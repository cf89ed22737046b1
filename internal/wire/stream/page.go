package stream

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Page is one response to a list request.
type Page[T any] struct {
	Items           []T
	Hashes          []uint64          // of the bytes of the items, in order; nil if unknown
	Taken           int               // number of items delivered while the page was read
	Rejections      []store.Rejection // objects that could not be decoded
	Held            []store.Key       // objects that the store holds with the same content
	OutOfShard      int               // number of dropped objects outside the reflector's shards
	Sharded         bool              // the server says that it sends only the shard
	ResourceVersion string
	Continue        string // the token of the next page; empty on the last one
	Conflict        bool   // the response to a probe contradicts earlier data
}

// MaxDetailed is how many undecodable objects of a list keep their own error.
const MaxDetailed = 100

// Hash returns the hash of the bytes of an item; 0 if it is unknown.
func (p *Page[T]) Hash(item int) uint64 {
	if p.Hashes == nil {
		return 0
	}
	return p.Hashes[item]
}

// FilterPage removes objects outside the shards from a page of a client, which has no hashes.
func FilterPage[T Object](s *Shards, p *Page[T]) {
	if s == nil {
		return
	}
	all := len(p.Items)
	p.Items = slices.DeleteFunc(p.Items, func(object T) bool { return !s.Has(object) })
	p.OutOfShard += all - len(p.Items)
}
