package eventqueue

import "github.com/kubereflector/kubereflector/store"

// follower turns the commits of a cache into events.
type follower[T any] struct {
	of     *Collection[T]
	filter *filter[T] // nil if everything is kept

	failures predicateFailures
	wanted   []bool // memory for the next commit
}

var _ store.Follower[any] = (*follower[any])(nil)

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	c := f.of
	// No other goroutine has the collection yet, so the predicate may run under its lock.
	c.mu.Lock()
	defer c.mu.Unlock()
	came := now()
	for change := range state.Changes() {
		if f.filter.keeps(change.Key, change.Object) {
			r := newRecord(&change, List, true)
			c.enqueueLocked(&r, came)
		}
	}
	f.failures.count(&c.counters)
	if state.Synced() {
		c.markListedLocked()
	}
}

// Commit implements [store.Follower]. It keeps nothing of the commit.
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	c := f.of
	if c.isClosed() {
		return
	}
	changes := f.filter.of(commit.Changes, commit.Origin)
	defer f.filter.done()
	wanted := f.want(commit, changes)
	if f.failures.n == 0 && c.inbox.put(changes, wanted, commit.Origin, commit.Initial, c.policy() != KeepAll) {
		if len(changes) > 0 {
			c.signal()
		}
		return
	}
	c.lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	f.failures.count(&c.counters)
	if len(changes) > 0 {
		came := now()
		for i := range changes {
			if c.isClosed() {
				return // Close waits for mu
			}
			r := newRecord(&changes[i], commit.Origin, commit.Initial)
			r.wanted = wanted != nil && wanted[i]
			c.enqueueLocked(&r, came)
		}
		defer c.signal()
	}
	if commit.Synced && !c.listed {
		c.markListedLocked()
	}
}
