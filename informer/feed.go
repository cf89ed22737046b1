package informer

import (
	"context"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// feed is the feed of an informer: one Feed, or one for each scope.
type feed interface {
	Feed
	// sources returns the reflectors, in the order in which they were added.
	sources() []*source
}

// ScopeState is the state of one reflector of an informer.
type ScopeState struct {
	// Scope is the scope that the reflector fills. It is the zero Scope unless the informer was
	// made by [NewScoped].
	Scope store.Scope
	// Selector is the label selector of the reflector, if it is one of [WithSelectors].
	Selector string
	State    reflector.State
	// Synced is true once the reflector has filled its scope.
	Synced bool
	// Broken is the time since which there is no watch; zero while there is one.
	Broken time.Time
}

// source is a Feed, in most cases a reflector, with a record of when its watch was broken.
type source struct {
	Feed
	place
	changed func() // called when the state has changed; may be nil

	mu     sync.Mutex
	broken time.Time // since when there is no watch; zero while there is one. Guarded by mu
	before time.Time // the value of broken before the last watch began. Guarded by mu
	began  time.Time // when that watch began. Guarded by mu

	// gone is closed when the scope is dropped; nil if it cannot be.
	gone chan struct{}
}

// place says which part of a cache a reflector fills.
type place struct {
	scope    store.Scope
	selector string // one of [Selectors]
}

// shortWatch is how long a watch must last to count.
const shortWatch = time.Second

func newSource(f Feed) *source { return &source{Feed: f, broken: time.Now()} }

func (s *source) sources() []*source { return []*source{s} }

// Run runs the reflector.
func (s *source) Run(ctx context.Context) error {
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { s.observe(over) })
	defer watcher.Wait()
	defer close(over)
	return s.Feed.Run(ctx)
}

// observe records state changes until the reflector has ended.
func (s *source) observe(over <-chan struct{}) {
	for {
		seen := s.note()
		select {
		case <-s.Changed(seen):
		case <-over:
			s.note()
			return
		}
	}
}

func (s *source) note() reflector.State {
	state := s.State()
	s.mu.Lock()
	switch now := time.Now(); {
	case state.Phase != reflector.Watching && s.broken.IsZero():
		s.broken = now
		if now.Sub(s.began) < shortWatch {
			s.broken = s.before // the server accepted the watch, but it never worked
		}
	case state.Phase == reflector.Watching && !s.broken.IsZero():
		s.before, s.began, s.broken = s.broken, now, time.Time{}
	}
	s.mu.Unlock()
	if s.changed != nil {
		s.changed()
	}
	return state
}

func (s *source) state() ScopeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ScopeState{Scope: s.scope, Selector: s.selector, State: s.State(), Synced: isClosed(s.Synced()), Broken: s.broken}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
