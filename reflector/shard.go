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
	// ErrMixedShards means that a reflector was given shards of different keys, such as of
	// UIDs and of namespaces, which no API server can select by at once.
	ErrMixedShards = errors.New("shards of one reflector must all be by UID, by namespace or by owner")

	// ErrShardMismatch means that a server said that it sent a shard alone, and sent
	// objects of other shards: it does not hash as this module does, so that objects may be
	// missing. The reflector goes on without asking for shards.
	ErrShardMismatch = errors.New("server selects other objects than the shard has: everything is asked for, and selected here")
)

// Sharding says who leaves out what is not in the shards of a reflector: see [WithShard].
type Sharding string

const (
	// NotSharded means that the reflector has no shards.
	NotSharded Sharding = ""
	// ShardingUnknown means that the server sent nothing yet by which it could be told.
	ShardingUnknown Sharding = "unknown"
	// ShardedByServer means that the server said that it leaves it out, or sent nothing
	// else since the last list began.
	ShardedByServer Sharding = "server"
	// ShardedByClient means that the server was not asked to, or did not do it: everything
	// comes, and what is not in the shards is left out here, as a rule without being decoded.
	ShardedByClient Sharding = "client"
)

// WithShard restricts the reflector to the objects in some shards, all of one key, such as one
// of [store.Shards]. The server is asked for them alone by a shard selector (KEP-5866). What it
// sends of others all the same, because it does not know of shards, is left out before it is
// decoded; [State] says which of both it is, and each list finds it out anew. A zero shard, or
// none, is everything.
//
// Of shards [store.ByOwner], an object enters when an owner in them takes control of it, and is
// deleted from the store, as one that left, when it no longer belongs to them. They are for the
// secondary objects of a controller whose primary ones are in the same shards [store.ByUID].
//
// A store that was filled before must hold what is in the shards, and nothing else.
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

// Shards returns the shards of [WithShard], none if the reflector has everything.
func (r *KubernetesResourceReflector[T]) Shards() []store.Shard {
	if r.shards == nil {
		return nil
	}
	return slices.Clone(r.shards.all)
}

// shardSet is some shards of one key. A nil one has everything.
type shardSet struct {
	by  store.ShardKey
	all []store.Shard
}

// selector returns the shards as the API takes them; empty if it cannot.
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

// moving reports whether an object may enter and leave the shards.
func (s *shardSet) moving() bool { return s.by == store.ByOwner }

// evidence is what the answers to a list, and the events since, say of a server.
type evidence struct {
	said         bool // the server said that it sends a shard alone
	own, foreign int
	// refused is true if the server did not take the selector since the last list began,
	// and mismatched if it was found to select something else.
	refused, mismatched bool
}

// verdict says who selects.
func (e *evidence) verdict(asked string) Sharding {
	switch {
	case asked == "" || e.foreign > 0:
		return ShardedByClient
	case e.said || e.own > 0:
		return ShardedByServer
	}
	return ShardingUnknown
}

// anew forgets what was before a list.
func (e *evidence) anew() { *e = evidence{mismatched: e.mismatched} }

// shardSelector returns what the server is to be asked for.
func (r *run[T]) shardSelector() string {
	if r.evidence.refused || r.evidence.mismatched {
		return ""
	}
	return r.shards.selector()
}

// refusesShards reports whether a request may have been refused because of the selector in it,
// and takes that out.
func (r *run[T]) refusesShards(opts *metav1.ListOptions, err error) bool {
	if opts.ShardSelector == "" || !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		return false
	}
	r.evidence.refused, opts.ShardSelector = true, ""
	return true
}

// learn takes what came into account.
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

// learnPage takes a page of a list into account. It returns an error if the server does not
// mean the same shards.
func (r *run[T]) learnPage(p *page[T]) error {
	r.evidence.said = r.evidence.said || p.sharded
	r.learn(len(p.items)+p.passed+len(p.unchanged)+len(p.lacking), p.foreign)
	if p.sharded && p.foreign > 0 {
		r.evidence.mismatched = true
		return ErrShardMismatch
	}
	return nil
}

// learnEvent takes an event into account, if it may change anything.
func (r *run[T]) learnEvent(e *event[T]) {
	switch {
	case r.shards == nil || e.err != nil || e.kind == watch.Bookmark:
	case e.foreign > 0 && r.evidence.foreign == 0:
		r.learn(0, e.foreign)
	case e.foreign == 0 && r.evidence.own == 0:
		r.learn(1, 0)
	}
}

// isSharded reports whether a list says that it has a shard alone.
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
