package reflector

import (
	"sync"
	"time"
)

// Phase is what a reflector is doing.
type Phase string

const (
	// Stopped means that Run has not been called, or has returned.
	Stopped Phase = "Stopped"
	// Listing means that a list was asked for and is not complete yet.
	Listing Phase = "Listing"
	// Opening means that a watch was asked for, and that the server has not accepted it
	// yet. After a broken watch, a list of one object precedes it.
	Opening Phase = "Opening"
	// Watching means that the server accepted a watch.
	Watching Phase = "Watching"
	// Waiting means that something failed and is tried again at RetryAt.
	Waiting Phase = "Waiting"
)

// State says what a reflector is doing, and why it is not in step with the
// server if it is not.
type State struct {
	Phase Phase

	// ResourceVersion is that of the store after its last change by Run.
	ResourceVersion string

	// Since is when the phase began.
	Since time.Time

	// Contact is the time of the last response, event or bookmark. The end of a watch
	// does not count. An idle watch gets a bookmark about once a minute.
	Contact time.Time

	// Sharding says whether the server or the client filters by [WithShard].
	Sharding Sharding

	// Err is what failed last. It is nil again once the server accepted a
	// watch, unless an object could not be stored: that stays until a list
	// without rejections.
	Err error

	// WatchListErr is why the reflector lists instead of asking for watch-lists; nil while
	// they work or are not wanted. It asks for one again when it needs a list after an hour.
	WatchListErr error

	// Attempt is the number of failures in a row, and RetryAt when it is tried
	// again; both are zero unless the phase is Waiting.
	Attempt int
	RetryAt time.Time

	// change counts the changes of everything but ResourceVersion and Contact.
	change int
}

// status is the State of a reflector, shared with those who look at it.
type status struct {
	// mu protects state and changed.
	mu      sync.Mutex
	state   State
	changed chan struct{} // closed by the next change; nil if nobody waits

	synced    chan struct{}
	latchSync sync.Once
}

func newStatus() *status {
	return &status{state: State{Phase: Stopped}, synced: make(chan struct{})}
}

// set changes the phase and what goes with it.
func (s *status) set(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state.Phase
	change(&s.state)
	if s.state.Phase != old {
		s.state.Since = time.Now()
	}
	s.state.change++
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// stop notes that Run has returned. What failed last stays.
func (s *status) stop() {
	s.set(func(s *State) { s.Phase, s.Attempt, s.RetryAt = Stopped, 0, time.Time{} })
}

// contact notes that the server was heard of.
func (s *status) contact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Contact = time.Now()
}

// stored notes the version of the store. It is copied here because a store need not
// be safe for whoever asks for the state.
func (s *status) stored(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.ResourceVersion = resourceVersion
}

func (s *status) get() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// after returns a channel that is closed when the state is another than seen.
func (s *status) after(seen State) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.change != seen.change {
		c := make(chan struct{})
		close(c)
		return c
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// latchSynced notes that the store has been filled, and reports whether that is news.
func (s *status) latchSynced() (first bool) {
	s.latchSync.Do(func() { first = true; close(s.synced) })
	return first
}
