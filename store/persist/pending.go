package persist

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// pending is what one transaction is to write: what whole commits changed since the
// last one, the latest state of each object. The zero pending is empty.
type pending[T any] struct {
	changes map[store.Key]change[T]
	// progress is where the last of the commits led to.
	progress progress
	// commits is how many there were, weight how many changes they had, and since
	// when the first of them was made; zero if there was none.
	commits int
	weight  int
	since   time.Time
}

// change is what becomes of one object.
type change[T any] struct {
	object  T
	version store.Version
	gone    bool
	// fresh is true if the file, with all that is written before, has nothing under the
	// key: if the object goes again, there is nothing to write.
	fresh bool
}

// progress is the resource versions of a cache.
type progress struct {
	version string
	scopes  map[store.Scope]string
}

func (p progress) clone() progress {
	return progress{version: p.version, scopes: maps.Clone(p.scopes)}
}

// list returns the scopes in order.
func (p progress) list() []scopeState {
	var all []scopeState
	for scope, version := range p.scopes {
		all = append(all, newScopeState(scope, version))
	}
	slices.SortFunc(all, func(a, b scopeState) int {
		return cmp.Or(
			store.Key{Cluster: a.Cluster, Namespace: a.Namespace}.Compare(store.Key{Cluster: b.Cluster, Namespace: b.Namespace}),
			cmp.Compare(a.scope().Shard.From, b.scope().Shard.From))
	})
	return all
}

// add takes in what a commit changed.
func (p *pending[T]) add(c *store.Change[T]) {
	p.weight++
	one := change[T]{version: c.Version, gone: c.Type == store.Deletion, fresh: c.Type == store.Addition}
	if !one.gone {
		one.object = c.Object
	}
	p.put(c.Key, one)
}

func (p *pending[T]) put(key store.Key, later change[T]) {
	if p.changes == nil {
		p.changes = make(map[store.Key]change[T])
	}
	if before, ok := p.changes[key]; ok {
		later.fresh = before.fresh
		if later.fresh && later.gone {
			delete(p.changes, key)
			return
		}
	}
	p.changes[key] = later
}

// followedBy returns what both are together. It uses the memory of both.
func (p pending[T]) followedBy(later pending[T]) pending[T] {
	for key, c := range later.changes {
		p.put(key, c)
	}
	p.progress = later.progress
	p.commits += later.commits
	p.weight += later.weight
	if p.since.IsZero() {
		p.since = later.since
	}
	return p
}
