package reflector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	// ErrMixedShards means that a reflector was given shards of different keys, such as UIDs and
	// namespaces. No API server can select by several keys at once.
	ErrMixedShards = errors.New("shards of one reflector must all be by UID, by namespace or by owner")

	// ErrShardMismatch means that a server claimed to send only the shard and sent objects of other
	// shards. The server hashes differently from this module, so objects may be missing. The
	// reflector stops sending the shard selector and filters by itself.
	ErrShardMismatch = errors.New("server selects other objects than the shard has: everything is asked for, and selected here")
)

// Sharding says whether the server or the reflector drops objects outside the reflector's shards:
// see [WithShard].
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

// WithShard restricts the reflector to the objects in some shards. All shards must have the same
// key, as one of [store.Shards] has. The reflector sends a shard selector (KEP-5866). A server
// without support for shards sends other objects as well. The reflector drops them before it
// decodes them. [State] reports which side filters, and each list determines it anew. A zero shard,
// or no shard, selects everything.
//
// With shards [store.ByOwner], an object enters when an owner in the shards becomes its controller.
// The reflector deletes it from the store when it leaves the shards. Use such shards for the
// secondary objects of a controller whose primary objects are in the same shards [store.ByUID].
//
// A store that was filled before must hold exactly the objects in the shards.
func WithShard(shards ...store.Shard) Option {
	return optionFunc(func(o *options) {
		o.shards = nil
		for _, shard := range shards {
			if shard.By != shards[0].By {
				o.err = errors.Join(o.err, ErrMixedShards)
			}
			if shard.IsEverything() && shard.By != store.ByOwner {
				return
			}
		}
		if len(shards) > 0 {
			o.shards = &shardSet{by: shards[0].By, all: slices.Clone(shards)}
		}
	})
}

// Shards returns the shards of [WithShard]. It returns nil if the reflector is not sharded.
func (r *KubernetesResourceReflector[T]) Shards() []store.Shard {
	if r.shards == nil {
		return nil
	}
	return slices.Clone(r.shards.all)
}

// shardSet is a set of shards with one key. A nil set contains every object.
type shardSet struct {
	by  store.ShardKey
	all []store.Shard
}

// selector returns the shard selector in the text form of the API. It is empty if the API cannot
// express the shards.
func (s *shardSet) selector() string {
	field := map[store.ShardKey]string{store.ByUID: "object.metadata.uid", store.ByNamespace: "object.metadata.namespace"}
	if s == nil || field[s.by] == "" {
		return ""
	}
	ranges := make([]string, len(s.all))
	for i, shard := range s.all {
		to := "0x10000000000000000"
		if shard.To != 0 {
			to = fmt.Sprintf("0x%016x", shard.To)
		}
		ranges[i] = fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", field[s.by], shard.From, to)
	}
	return strings.Join(ranges, " || ")
}

func (s *shardSet) contains(hash uint64) bool {
	return slices.ContainsFunc(s.all, func(shard store.Shard) bool { return shard.Contains(hash) })
}

// has reports whether an object is in one of the shards.
func (s *shardSet) has(object metav1.Object) bool {
	switch {
	case s == nil:
		return true
	case s.by == store.ByNamespace:
		return s.contains(store.ShardHash(object.GetNamespace()))
	case s.by == store.ByUID:
		return s.contains(store.ShardHash(string(object.GetUID())))
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && s.contains(store.ShardHash(string(owner.UID)))
}

// moving reports whether an object may enter and leave the shards during its life.
func (s *shardSet) moving() bool { return s.by == store.ByOwner }

// evidence records how a server filters, from its list responses and later events.
type evidence struct {
	said         bool // the server said that it sends only the shard
	own, foreign int
	// refused is true if the server has rejected the selector since the last list began. mismatched
	// is true if the server's selection differs from the reflector's.
	refused, mismatched bool
}

// verdict returns the side that filters.
func (e *evidence) verdict(asked string) Sharding {
	switch {
	case asked == "" || e.foreign > 0:
		return ShardedByClient
	case e.said || e.own > 0:
		return ShardedByServer
	}
	return ShardingUnknown
}

// anew forgets the evidence from before a list.
func (e *evidence) anew() { *e = evidence{mismatched: e.mismatched} }

// shardSelector returns the shard selector for the next request; empty for none.
func (r *run[T]) shardSelector() string {
	if r.evidence.refused || r.evidence.mismatched {
		return ""
	}
	return r.shards.selector()
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

// learn adds received objects to the evidence: own counts objects in the shards, foreign the
// others.
func (r *run[T]) learn(own, foreign int) {
	if r.shards == nil {
		return
	}
	r.evidence.own += own
	r.evidence.foreign += foreign
	now := r.evidence.verdict(r.shardSelector())
	if now != r.sharding {
		r.sharding = now
		r.status.set(func(s *State) { s.Sharding = now })
	}
}

// learnPage adds a page of a list to the evidence. It returns an error if the server hashes
// differently.
func (r *run[T]) learnPage(p *page[T]) error {
	r.evidence.said = r.evidence.said || p.sharded
	r.learn(len(p.items)+p.passed+len(p.unchanged)+len(p.lacking), p.foreign)
	if p.sharded && p.foreign > 0 {
		r.evidence.mismatched = true
		return ErrShardMismatch
	}
	return nil
}

// learnEvent adds an event to the evidence, if the event may change the verdict.
func (r *run[T]) learnEvent(e *event[T]) {
	switch {
	case r.shards == nil || e.err != nil || e.kind == watch.Bookmark:
	case e.foreign > 0 && r.evidence.foreign == 0:
		r.learn(0, e.foreign)
	case e.foreign == 0 && r.evidence.own == 0:
		r.learn(1, 0)
	}
}

// isSharded reports whether a list says that it contains only a shard.
func isSharded(list any) bool {
	switch list := list.(type) {
	case metav1.ShardedListInterface:
		return list.GetShardInfo() != nil
	case *unstructured.UnstructuredList:
		_, found, err := unstructured.NestedMap(list.Object, "metadata", "shardInfo")
		return found && err == nil
	}
	return false
}
