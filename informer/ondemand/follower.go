package ondemand

import (
	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/store"
)

// follower drops objects that the metadata shows to be old.
type follower[T, M Object] struct {
	of       *Objects[T]
	metadata *store.View[M]
}

// Start implements [store.Follower].
func (f *follower[T, M]) Start(state *store.Snapshot[M]) {
	if state.Synced() {
		f.of.metadataChanged(byreference.News{Version: state.ResourceVersion(), Synced: true, Rejected: f.metadata.Rejected()})
	}
}

// Commit implements [store.Follower]. After a list, an object that was newer than its metadata may
// belong to a lost history, because the server was restored from a backup. After another list than
// the first, the server may also show the other parts of an object differently than before, at the
// same version: see ondemand-D7. So no object stays, and no later caller gets the answer to an
// earlier request.
func (f *follower[T, M]) Commit(commit *store.Commit[M]) {
	o := f.of
	o.metadataChanged(byreference.NewsOf(commit, f.metadata.Rejected()))
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		change := &commit.Changes[i]
		key, reshown := change.Key, change.Type == store.Modification && versionOf(change.Prior) == change.Version
		if object, ok := o.recent.get(key); ok && (reshown || o.current(key, object) != nil) {
			o.recent.drop(key)
		}
		if flight := o.flights[key]; flight != nil && reshown {
			flight.outdated = true
		}
	}
	if commit.Origin != store.List {
		return
	}
	listed := func(key store.Key, version store.Version) bool {
		return commit.Partition == nil || commit.Partition.Scope().Contains(key)
	}
	o.recent.dropUnless(func(key store.Key, object T) bool {
		version := versionOf(object)
		meta, _ := o.meta(key)
		return version.Equal(meta) && (commit.Initial || !listed(key, version))
	})
	for _, flight := range o.flights {
		flight.outdated = flight.outdated || !commit.Initial
	}
}
