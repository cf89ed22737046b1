package feed

import (
	"context"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// Source is a Feed, in most cases a reflector, with a record of when its watch was broken. A reflector
// that polls counts as one with a watch: its server has no better way.
type Source struct {
	Feed
	// Scope is the part of the cache that the feed fills: everything for the zero Scope.
	Scope store.Scope
	// Gone is closed when the source is dropped; nil if it cannot be.
	Gone chan struct{}

	changed func() // called, without a lock, when the state has changed; may be nil

	mu     sync.Mutex
	broken time.Time // since when there is no watch; zero while there is one. Guarded by mu
	before time.Time // the value of broken before the last watch began. Guarded by mu
	began  time.Time // when that watch began. Guarded by mu
}

// shortWatch is how long a watch must last to count.
const shortWatch = time.Second

// New returns the source of a cache that is filled by one feed.
func New(f Feed) *Source { return &Source{Feed: f, broken: time.Now()} }

// Sources implements [Group].
func (s *Source) Sources() []*Source { return []*Source{s} }

// Run runs the feed.
func (s *Source) Run(ctx context.Context) error {
	if of, ok := s.Feed.(interface{ OnChange(func()) }); ok {
		of.OnChange(func() { s.note() })
		s.note()
		defer s.note()
		return s.Feed.Run(ctx)
	}
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { s.observe(over) })
	defer watcher.Wait()
	defer close(over)
	return s.Feed.Run(ctx)
}

// observe records state changes until the feed has ended.
func (s *Source) observe(over <-chan struct{}) {
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

func (s *Source) note() reflector.State {
	state := s.State()
	s.mu.Lock()
	works := state.Phase == reflector.Watching || state.Phase == reflector.Polling
	switch now := time.Now(); {
	case !works && s.broken.IsZero():
		s.broken = now
		if now.Sub(s.began) < shortWatch {
			s.broken = s.before // the server accepted the watch, but it never worked
		}
	case works && !s.broken.IsZero():
		s.before, s.began, s.broken = s.broken, now, time.Time{}
	}
	s.mu.Unlock()
	if s.changed != nil {
		s.changed()
	}
	return state
}

// Broken returns the time since which there is no watch; zero while there is one.
func (s *Source) Broken() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// IsSynced reports whether the feed has filled its part of the cache.
func (s *Source) IsSynced() bool { return lifecycle.IsClosed(s.Synced()) }
