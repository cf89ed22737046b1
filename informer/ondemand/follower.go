package ondemand

import "github.com/kubereflector/kubereflector/store"

// follower drops what the metadata says is old.
type follower[T, M Object] struct{ of *Objects[T] }

// Start implements [store.Follower].
func (*follower[T, M]) Start(*store.Snapshot[M]) {}

// Commit implements [store.Follower].
func (f *follower[T, M]) Commit(commit *store.Commit[M]) {
	o := f.of
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range commit.Changes {
		key := commit.Changes[i].Key
		if object, ok := o.recent.get(key); ok && o.current(key, object) != nil {
			o.recent.drop(key)
		}
	}
}
