package persist

import (
	"time"

	"github.com/kubereflector/kubereflector/store"
)

// State reports how current the cache and the file are.
type State struct {
	// Loaded is the number of objects that Open read from the file.
	Loaded int

	// Stale is true while the cache shows only the state of an earlier process. It becomes false
	// when the reflector writes a list, a change or a bookmark, or when the server accepts a watch
	// from the version of the file. If Open read several partitions, each must have one of these.
	Stale bool

	// Lasting is false while the store cannot write the file, and after Close: Err has the reason.
	// The store still works, and the file keeps the last state that the store wrote. The next write
	// that succeeds sets it to true.
	Lasting bool
	Err     error

	// Unencoded is the number of objects whose current state is not in the file, because the codec
	// could not encode it: see persist-P8. UnencodedKeys are the first ten of their keys, in
	// order; they are read-only. The file has all other objects.
	Unencoded     int
	UnencodedKeys []store.Key

	// Written is the time of the last write; zero if there was none.
	Written time.Time

	// Unwritten is the number of changes that are not in the file yet, and UnwrittenBytes their
	// approximate encoded size. Since is the time of the first of them; zero if there is none.
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

// contact records that the reflector reached the server.
func (s *Store[T]) contact(scope store.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stale, scope)
	delete(s.stale, store.Scope{}) // the reflector now uses partitions
}

// Resumed says that a reflector has reached the server: see [store.Store].
func (s *Store[T]) Resumed() { s.contact(store.Scope{}) }
