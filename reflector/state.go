package reflector

import (
	"context"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
)

// Phase is the current activity of a reflector.
type Phase string

const (
	// Stopped means that Run has not been called, or has returned.
	Stopped Phase = "Stopped"
	// Listing means that the reflector requested a list and has not received all of it.
	Listing Phase = "Listing"
	// Opening means that the reflector requested a watch and the server has not accepted it yet.
	// After a broken watch, the reflector first lists one object.
	Opening Phase = "Opening"
	// Watching means that the server accepted a watch.
	Watching Phase = "Watching"
	// Polling means that the server's lists have no resource version, so that no watch can resume
	// from them. The reflector lists again at least every 30 seconds, and about a second after each
	// event of a watch, if the server serves one. The phase stays Polling during these lists.
	Polling Phase = "Polling"
	// BackingOff means that the reflector backs off after a failure and retries at NextRetry.
	BackingOff Phase = "BackingOff"
)

// State describes the activity of a reflector, and the reason if it is not in step with the server.
type State struct {
	Phase Phase

	// ResourceVersion is the store's resource version after the last change by Run.
	ResourceVersion string

	// Since is when the phase began.
	Since time.Time

	// LastContact is the time of the last response, event or bookmark. The end of a watch does not
	// count. The server sends a bookmark on an idle watch about once a minute.
	LastContact time.Time

	// Sharding says whether the server or the client filters by [WithShard]. It is empty without
	// shards.
	Sharding Sharding

	// Err is the last failure. It becomes nil when the server accepts a watch. The error of an
	// object that the store rejected stays until a list without rejections.
	Err error

	// LastErr is the last failure and LastErrTime is its time. Unlike Err, both stay after the server
	// accepts a watch. The regular end of a watch is no failure.
	LastErr     error
	LastErrTime time.Time

	// WatchListErr is the reason why the reflector lists instead of requesting watch-lists. It is
	// nil while watch-lists work or are turned off. The reflector tries a watch-list again when it
	// needs a list an hour later or more.
	WatchListErr error

	// Attempt is the number of failures in a row, and NextRetry is the time of the next attempt.
	// Both are zero unless the phase is BackingOff.
	Attempt   int
	NextRetry time.Time

	// change counts the changes of all fields except ResourceVersion and LastContact.
	change int
}

// status is the State of a reflector, and what depends on it. The goroutine of Run and readers of the
// state share it.
type status struct {
	state    *lifecycle.Status[State]
	advanced lifecycle.Changes // of observed
	synced   *lifecycle.Latch

	mu sync.Mutex
	// observed is the version up to which the store was given every change. Unlike the ResourceVersion of the state, a
	// rejected object does not hold it back. Guarded by mu
	observed string
	// asOf is the latest time at which the server had no change that the store lacks; zero if no
	// consistent list or CatchUp has shown one. Guarded by mu.
	asOf time.Time
}

func newStatus() *status {
	return &status{
		state:  lifecycle.NewStatus(State{Phase: Stopped}, func(a, b *State) bool { return a.change == b.change }),
		synced: lifecycle.NewLatch(),
	}
}

// set changes the phase and the fields that depend on it, and tells those who wait for a change.
func (s *status) set(change func(*State)) {
	s.state.Set(func(state *State) {
		old := state.Phase
		change(state)
		if state.Phase != old {
			state.Since = time.Now()
		}
		state.change++
	})
}

// fail records a failure in the state.
func (s *State) fail(err error) { s.Err, s.LastErr, s.LastErrTime = err, err, time.Now() }

// enter begins a phase other than BackingOff. Err keeps the last failure.
func (s *status) enter(phase Phase) {
	if s.state.Get().Phase != phase {
		s.set(func(s *State) { s.Phase, s.Attempt, s.NextRetry = phase, 0, time.Time{} })
	}
}

// contact records that the server has just sent something.
func (s *status) contact() {
	s.state.Set(func(state *State) { state.LastContact = time.Now() })
}

// stored records the store's resource version, and the observed one. Readers take these copies, because a store need
// not be safe for concurrent use.
func (s *status) stored(resourceVersion, observed string) {
	s.state.Set(func(state *State) { state.ResourceVersion = resourceVersion })
	s.mu.Lock()
	moved := s.observed != observed
	s.observed = observed
	s.mu.Unlock()
	if moved {
		s.advanced.Announce()
	}
}

func (s *status) observedVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observed
}

// reached waits until the observed version is the given one or a later one, and reports false if ctx
// ends before.
func (s *status) reached(ctx context.Context, version string) bool {
	for {
		advanced := s.advanced.Next() // before the look, so that no version in between is missed
		if reaches(s.observedVersion(), version) {
			return true
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return false
		}
	}
}

// current records that the store has every change that the server had at a time.
func (s *status) current(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.asOf) {
		s.asOf = at
	}
}

// isCurrent reports whether the store has every change that the server had at some time after since.
func (s *status) isCurrent(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.asOf.IsZero() && !s.asOf.Before(since)
}
