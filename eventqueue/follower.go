package eventqueue

import "github.com/kubereflector/kubereflector/store"

// follower turns the commits of a cache into events.
type follower[T any] struct {
	of     *Collection[T]
	filter filter[T]
}

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	c := f.of
	// Nobody else has the collection yet: the predicate may run under its lock.
	c.mu.Lock()
	defer c.mu.Unlock()
	for change := range state.Changes() {
		if f.filter.keeps(change.Key, change.Object) {
			c.enqueueLocked(&change, List, true)
		}
	}
	c.counters.filtered(&f.filter.failures, f.filter.err)
	if state.Complete() {
		c.markListedLocked()
	}
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	changes := f.filter.of(commit.Changes, commit.Origin)
	defer f.filter.done()
	c := f.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	c.counters.filtered(&f.filter.failures, f.filter.err)
	if len(changes) > 0 {
		for i := range changes {
			c.enqueueLocked(&changes[i], commit.Origin, commit.Initial)
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
	for i := range changes {
		if l := c.keys[changes[i].Key]; l != nil {
			c.compactLocked(l)
		}
	}
}
