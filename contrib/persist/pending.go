package persist

import (
	"maps"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// pending has the changes for one transaction: the latest state of each object that whole commits
// changed since the last transaction. The zero pending is empty.
type pending[T any] struct {
	changes map[store.Key]change[T]
	// progress has the versions after the last of the commits.
	progress progress
	// commits is the number of commits, and weight the number of their changes. since is the time
	// of the first; zero if there is none.
	commits int
	weight  int
	since   time.Time
}

// change is the new state of one object.
type change[T any] struct {
	object  T
	version store.Version
	gone    bool
	// fresh is true if the file, after all earlier writes, has no record under the key. If the
	// object is deleted again, there is nothing to write.
	fresh bool
}

// progress has the resource versions of a cache and of its partitions.
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
		all = append(all, scopeState{Cluster: scope.Cluster, Namespace: scope.Namespace, Version: version})
	}
	slices.SortFunc(all, func(a, b scopeState) int {
		return store.Key{Cluster: a.Cluster, Namespace: a.Namespace}.Compare(store.Key{Cluster: b.Cluster, Namespace: b.Namespace})
	})
	return all
}

// add records one change of a commit.
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

// followedBy merges later changes into p. It reuses the memory of both.
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
