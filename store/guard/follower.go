package guard

import "github.com/kubereflector/kubereflector/store"

// follower makes a guard a follower of its cache.
type follower[T any] Guard[T]

// Start implements [store.Follower].
func (f *follower[T]) Start(state *store.Snapshot[T]) {
	g := (*Guard[T])(f)
	var errs []error
	g.mu.Lock()
	for change := range state.Changes() {
		g.addLocked(change.Key, change.Object, &errs).cached = true
	}
	g.mu.Unlock()
	g.report(errs)
}

// Commit implements [store.Follower].
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	g := (*Guard[T])(f)
	var errs []error
	g.mu.Lock()
	for i := range commit.Changes {
		change := &commit.Changes[i]
		if change.Type != store.Addition {
			if s := g.heldLocked(change.Key); s != nil {
				errs = append(errs, g.verifyLocked(s))
				s.cached = false
				g.forgetLocked(s)
			}
		}
		if change.Type == store.Deletion {
			continue
		}
		s := g.findLocked(change.Key, change.Object) // a subscriber may already use it
		if s == nil {
			s = g.addLocked(change.Key, change.Object, &errs)
		}
		s.cached = true
	}
	g.mu.Unlock()
	g.report(errs)
}
