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
		c.enqueueLocked(&change, List, true)
	}
	if state.Complete() {
		c.markListedLocked()
	}
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	c := f.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	if len(commit.Changes) > 0 {
		for i := range commit.Changes {
			c.enqueueLocked(&commit.Changes[i], commit.Origin, commit.Initial)
		}
		defer c.signalLocked()
	}
	if commit.Complete && !c.listed {
		c.markListedLocked()
	}
	if c.compactor == nil {
		return
	}
	// Last: should it end the goroutine, every event is queued.
	for i := range commit.Changes {
		if l := c.keys[commit.Changes[i].Key]; l != nil {
			c.compactLocked(l)
		}
	}
}
