package reflector

import (
	"errors"
	"slices"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// errMixedShards means that a reflector was given shards of different keys. No API server can
	// select by several keys at once.
	errMixedShards = errors.New("shards of one reflector must all be by UID or all by namespace")

	// ErrShardMismatch means that a server claimed to send only the shard and sent objects of other
	// shards. The server hashes differently from this module, so objects may be missing. The
	// reflector stops sending the shard selector and filters by itself.
	ErrShardMismatch = errors.New("server selects other objects than the shard has: everything is asked for, and selected here")
)

// The reflector always filters by its shards, also if the server claims to do so. A server may be
// upgraded or restored, and its replicas may disagree.

// Sharding says whether the server or the reflector drops objects outside the reflector's shards:
// see [WithShard].
type Sharding string

const (
	// ShardingUnknown means that the server has sent no evidence yet.
	ShardingUnknown Sharding = "unknown"
	// ShardedByServer means that the server said that it filters, or that it has sent only objects
	// in the shards since the last list began.
	ShardedByServer Sharding = "server"
	// ShardedByClient means that the server did not get the selector or ignored it. The server
	// sends all objects, and the reflector drops those outside of the shards.
	ShardedByClient Sharding = "client"
)

// WithShard restricts the reflector to the objects in some shards. All shards must have the same
// key, as one of [store.Shards] has. The reflector sends a shard selector (KEP-5866), and drops what a server
// sends all the same (reflector-R11). [State] reports which side filters. A zero shard, or no shard, selects
// everything.
//
// A store that was filled before must hold exactly the objects in the shards.
func WithShard(shards ...store.Shard) Option {
	return optionFunc(func(o *options) {
		o.shards = nil
		for _, shard := range shards {
			if shard.By != shards[0].By {
				o.err = errors.Join(o.err, errMixedShards)
			}
			if shard.IsEverything() {
				return
			}
		}
		if len(shards) > 0 {
			o.shards = &stream.Shards{By: shards[0].By, All: slices.Clone(shards)}
		}
	})
}

// Shards returns the shards of [WithShard]. It returns nil if the reflector is not sharded.
func (r *KubernetesResourceReflector[T]) Shards() []store.Shard {
	if r.shards == nil {
		return nil
	}
	return slices.Clone(r.shards.All)
}

// evidence records how a server filters, from its list responses and later events.
type evidence struct {
	said bool // the server said that it sends only the shard
	objects
	refused bool // the server has rejected the selector since the last list began
}

// verdict returns the side that filters.
func (e *evidence) verdict(asked string) Sharding {
	switch {
	case asked == "" || e.outOfShard > 0:
		return ShardedByClient
	case e.said || e.inShard > 0:
		return ShardedByServer
	}
	return ShardingUnknown
}

// reset forgets the evidence from before a list.
func (e *evidence) reset() { *e = evidence{} }

// shardSelector returns the shard selector for the next request; empty for none.
func (r *run[T]) shardSelector() string {
	if r.evidence.refused || r.mismatched {
		return ""
	}
	return r.shards.Selector()
}

// refusesShards reports whether the server may have rejected a request because of its shard
// selector. It then removes the selector from opts.
func (r *run[T]) refusesShards(opts *metav1.ListOptions, err error) bool {
	if opts.ShardSelector == "" || !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		return false
	}
	r.evidence.refused, opts.ShardSelector = true, ""
	return true
}

// learn adds received objects to the evidence.
func (r *run[T]) learn(came objects) {
	if r.shards == nil {
		return
	}
	r.evidence.inShard += came.inShard
	r.evidence.outOfShard += came.outOfShard
	now := r.evidence.verdict(r.shardSelector())
	if now != r.sharding {
		r.sharding = now
		r.status.set(func(s *State) { s.Sharding = now })
	}
}

// objects counts objects that came: those in the shards, and the others.
type objects struct{ inShard, outOfShard int }

func (o *objects) add(outside bool, n int) {
	if outside {
		o.outOfShard += n
	} else {
		o.inShard += n
	}
}

// learnPage adds a page of a list to the evidence. It returns an error if the server hashes
// differently.
func (r *run[T]) learnPage(p *stream.Page, came objects) error {
	r.evidence.said = r.evidence.said || p.Sharded
	r.learn(came)
	if p.Sharded && came.outOfShard > 0 {
		r.mismatched = true
		return ErrShardMismatch
	}
	return nil
}

// learnItem adds an item of a watch to the evidence, if it may change the verdict.
func (r *run[T]) learnItem(i *stream.Item[T]) {
	switch {
	case i.Kind == stream.Outside && r.evidence.outOfShard == 0:
		r.learn(objects{outOfShard: i.Count})
	case i.Kind != stream.Outside && r.evidence.inShard == 0:
		r.learn(objects{inShard: 1})
	}
}
