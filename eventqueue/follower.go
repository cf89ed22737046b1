package eventqueue

import "github.com/kubereflector/kubereflector/store"

// follower turns the commits of a cache into events.
type follower[T any] struct{ of *Collection[T] }

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	c := f.of
	c.mu.Lock()
	defer c.mu.Unlock()
	for change := range state.Changes() {
		c.enqueueLocked(newRecord(change, List, true))
	}
	if state.Complete() {
		c.markListedLocked()
	}
	c.signal()
}

// Commit implements [store.Follower].
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	c := f.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	for _, change := range commit.Changes {
		c.enqueueLocked(newRecord(change, commit.Origin, commit.Initial))
	}
	if commit.Complete && !c.listed {
		c.markListedLocked()
	}
	if len(commit.Changes) > 0 {
		c.signal()
	}
}
