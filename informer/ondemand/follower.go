package ondemand

import (
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// follower drops objects that the metadata shows to be old.
type follower[T, M Object] struct {
	of       *Objects[T]
	metadata *store.View[M]
}

// Start implements [store.Follower].
func (*follower[T, M]) Start(*store.Snapshot[M]) {}

// Commit implements [store.Follower]. After a list, an object that was newer than its metadata may
// belong to a lost history, because the server was restored from a backup.
func (f *follower[T, M]) Commit(commit *store.Commit[M]) {
	o := f.of
	upTo := commit.ObservedVersion
	if upTo == "" && commit.Origin != store.List {
		upTo = o.upTo() // a deletion by key has no version
	}
	o.observed.Store(&upTo)
	var rejected []store.Key // the metadata does not show their last changes
	if commit.ResourceVersion != upTo {
		rejected = f.metadata.Rejected()
	}
	o.floors.end(func(key store.Key, one floor) bool {
		// After a list, see above.
		return !newer(one.until, upTo) && !slices.Contains(rejected, key) || commit.Origin == store.List && one.read
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		key := commit.Changes[i].Key
		if object, ok := o.recent.get(key); ok && o.current(key, object) != nil {
			o.recent.drop(key)
		}
	}
	if commit.Origin == store.List {
		o.recent.dropUnless(func(key store.Key, object T) bool {
			return versionOf(object).Equal(o.meta(key).version)
		})
	}
}
