package persist

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// State says how far what is read, and what is in the file, can be relied on.
type State struct {
	// Loaded is how many objects were read from the file.
	Loaded int

	// Stale is true as long as what an earlier process held is all that is known: until
	// a list came, or a change or a bookmark, or the server accepted a watch from
	// there. Of several partitions that were read, none may be without.
	Stale bool

	// Lasting is false while the file cannot be written, and after Close: Err says
	// why. The store works all the same; the file keeps the last state that was
	// written. It becomes true with the next write that succeeds.
	Lasting bool
	Err     error

	// Lacking is how many objects are not in the file as they are, because their codec could
	// not encode them: see P8. LackingKeys are the first ten of their keys, in order; they are
	// read-only. All else lasts.
	Lacking     int
	LackingKeys []store.Key

	// Written is when something was written last; zero if nothing was.
	Written time.Time

	// Unwritten is how many changes are not in the file yet, and UnwrittenBytes about
	// how long they will be. Since is when the first of them was made; zero if there
	// is none.
	Unwritten      int
	UnwrittenBytes int
	Since          time.Time
}

// State returns the state of the store.
func (s *Store[T]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Stale = len(s.stale) > 0
	state.Unwritten = s.pending.weight + s.flight.weight
	state.UnwrittenBytes = s.bytesLocked(state.Unwritten)
	state.Since = s.flight.since
	if state.Since.IsZero() {
		state.Since = s.pending.since
	}
	return state
}

// Path returns the path of the file.
func (s *Store[T]) Path() string { return s.path }

// contact notes that the server was heard of.
func (s *Store[T]) contact(scope store.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stale, scope)
	delete(s.stale, store.Scope{}) // it has partitions now, if it had none
}

// Resumed implements [store.Resumer].
func (s *Store[T]) Resumed() { s.contact(store.Scope{}) }
