package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// scopes are reflectors that share a cache. Each fills a part of it: a partition, or the objects of a
// selector.
type scopes[T any] struct {
	name   string
	part   func(place) (store.Store[T], error) // adds a part
	remove func(place) error                   // removes a part and its objects

	// admin is held while a scope is added or dropped, which includes the wait for a dropped
	// reflector to end. Lock order: admin, then mu.
	admin sync.Mutex

	// mu protects the fields below it.
	mu      sync.Mutex
	all     []*scoped     // in the order in which they were added
	run     *scopesRun    // nil unless Run runs
	changed chan struct{} // closed by the next change; nil if no caller waits
	synced  chan struct{}
}

// scoped is one of several reflectors.
type scoped struct {
	*source
	stop  context.CancelFunc // nil unless it runs
	ended chan struct{}      // closed when it has ended; nil before it runs
}

// scopesRun is one call of Run. A reflector that fails ends the others.
type scopesRun struct {
	ctx        context.Context
	cancel     context.CancelFunc
	reflectors sync.WaitGroup
	errs       []error // guarded by scopes.mu
}

func (s *scopes[T]) add(at place, reflect func(store.Store[T]) Feed) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	if s.find(at) != nil {
		return fmt.Errorf("%w: the informer has it already", store.ErrOutOfScope)
	}
	part, err := s.part(at)
	if err != nil {
		return err
	}
	one := &scoped{source: newSource(reflect(part))}
	one.place, one.gone, one.source.changed = at, make(chan struct{}), s.change
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	s.changeLocked()
	if s.run != nil {
		s.startLocked(s.run, one)
	}
	return nil
}

func (s *scopes[T]) drop(at place) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	one := s.find(at)
	if one == nil {
		return ErrNoScope
	}
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *scoped) bool { return other == one })
	stop, ended := one.stop, one.ended
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
	// Remove only after the reflector has ended: a late write to a partition would be an error.
	err := s.remove(at)
	close(one.gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeLocked()
	s.checkSyncedLocked()
	return err
}

func (s *scopes[T]) find(at place) *scoped {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.place == at {
			return one
		}
	}
	return nil
}

// Run runs all reflectors until ctx ends or one of them fails for good.
func (s *scopes[T]) Run(ctx context.Context) error {
	r := &scopesRun{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	s.mu.Lock()
	s.run = r
	for _, one := range s.all {
		s.startLocked(r, one)
	}
	s.mu.Unlock()

	<-r.ctx.Done()
	s.mu.Lock()
	s.run = nil // no further reflector is started
	s.mu.Unlock()
	r.reflectors.Wait()
	return errors.Join(r.errs...) // all goroutines that write to errs have ended
}

func (s *scopes[T]) startLocked(r *scopesRun, one *scoped) {
	var ctx context.Context
	ctx, one.stop = context.WithCancel(r.ctx)
	ended := make(chan struct{})
	one.ended = ended
	r.reflectors.Go(func() {
		defer close(ended)
		defer one.stop()
		err := one.Run(ctx)
		if err == nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		r.errs = append(r.errs, &ScopeError{s.name, one.scope, err})
		r.cancel()
	})
	r.reflectors.Go(func() {
		select {
		case <-one.Synced():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.checkSyncedLocked()
		case <-ctx.Done():
		}
	})
}

// checkSyncedLocked latches that all scopes are filled. Without scopes, nothing is synced.
func (s *scopes[T]) checkSyncedLocked() {
	if len(s.all) == 0 || isClosed(s.synced) {
		return
	}
	if !slices.ContainsFunc(s.all, func(one *scoped) bool { return !isClosed(one.Synced()) }) {
		close(s.synced)
	}
}

func (s *scopes[T]) sources() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*source, len(s.all))
	for n, one := range s.all {
		all[n] = one.source
	}
	return all
}

// State returns the state of the reflector that is furthest from a watch. Among equals it returns
// the first.
func (s *scopes[T]) State() reflector.State {
	worst, distance := reflector.State{Phase: reflector.Stopped}, 0
	for _, one := range s.sources() {
		state := one.state()
		if d := distanceOf(state); d > distance {
			worst, distance = state.State, d
		}
	}
	return worst
}

// distanceOf returns how far a reflector is from a watch.
func distanceOf(s ScopeState) int {
	distance := 1 + slices.Index([]reflector.Phase{reflector.Watching, reflector.Opening, reflector.Listing, reflector.Stopped, reflector.BackingOff}, s.State.Phase)
	if !s.Synced {
		distance += 10
	}
	return distance
}

func (s *scopes[T]) Changed(seen reflector.State) <-chan struct{} {
	s.mu.Lock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	// Compare after the channel was taken: a change in between closes the channel.
	if !sameState(s.State(), seen) {
		now := make(chan struct{})
		close(now)
		return now
	}
	return changed
}

// sameState compares states without the fields that change all the time.
func sameState(a, b reflector.State) bool {
	a.ResourceVersion, a.LastContact = b.ResourceVersion, b.LastContact
	return a == b
}

func (s *scopes[T]) Synced() <-chan struct{} { return s.synced }

func (s *scopes[T]) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeLocked()
}

func (s *scopes[T]) changeLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
