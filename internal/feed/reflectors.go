package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// ErrNone means that there is no reflector to drop.
var ErrNone = errors.New("no such scope")

// Reflectors is the [Group] of an informer whose scopes come and go. Each reflector fills one
// partition of the cache. Create it with [NewReflectors].
type Reflectors[T any] struct {
	target Target[T]

	// admin is held while a part is added or dropped, which includes the wait for a dropped
	// reflector to end. Lock order: admin, then mu.
	admin sync.Mutex

	changed lifecycle.Changes
	synced  *lifecycle.Latch // all parts are filled

	// mu protects the fields below it.
	mu      sync.Mutex
	all     []*part  // in the order in which they were added
	run     *running // nil unless Run runs
	partial bool     // a part left out objects that exist, because of a selector or shards
	// dropping is true while Drop waits for a reflector whose objects the cache still holds.
	dropping bool
}

// part is one of several reflectors.
type part struct {
	*Source
	stop  context.CancelFunc // nil unless it runs
	ended chan struct{}      // closed when it has ended; nil before it runs
}

// running is one call of Run. A reflector that fails ends the others.
type running struct {
	ctx        context.Context
	cancel     context.CancelFunc
	reflectors sync.WaitGroup
	errs       []error // guarded by Reflectors.mu
}

// NewReflectors returns a group without reflectors, for an informer.
func NewReflectors[T any](target Target[T]) *Reflectors[T] {
	return &Reflectors[T]{target: target, synced: lifecycle.NewLatch()}
}

// Add adds a partition and its reflector, which runs while Run runs.
func (s *Reflectors[T]) Add(at store.Scope, reflect func(store.Store[T]) Feed) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	if s.find(at) != nil {
		return fmt.Errorf("%w: the informer has it already", store.ErrOutOfScope)
	}
	into, err := s.target.Partition(at)
	if err != nil {
		return err
	}
	one := &part{Source: New(reflect(into))}
	one.Scope, one.Gone, one.changed = at, make(chan struct{}), s.noted
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	if of, ok := one.Feed.(interface{ Covers(store.Key) bool }); ok {
		s.partial = s.partial || !of.Covers(store.Key{})
	}
	s.changed.Announce()
	if s.run != nil {
		s.startLocked(s.run, one)
	}
	return nil
}

// Drop ends a reflector, waits for its end, and removes its partition with the objects. It returns
// [ErrNone] if there is no such scope.
func (s *Reflectors[T]) Drop(at store.Scope) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	one := s.find(at)
	if one == nil {
		return ErrNone
	}
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *part) bool { return other == one })
	s.dropping = true
	stop, ended := one.stop, one.ended
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
	defer func() { // also if a follower panics
		close(one.Gone)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dropping = false
		s.changed.Announce()
		s.checkSyncedLocked()
	}()
	// Remove only after the reflector has ended: a late write to a partition would be an error.
	return s.target.Cache.Drop(at)
}

func (s *Reflectors[T]) find(at store.Scope) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.Scope == at {
			return one
		}
	}
	return nil
}

// Run runs all reflectors until ctx ends or one of them fails for good.
func (s *Reflectors[T]) Run(ctx context.Context) error {
	r := &running{}
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

func (s *Reflectors[T]) startLocked(r *running, one *part) {
	var ctx context.Context
	ctx, one.stop = context.WithCancel(r.ctx)
	ended := make(chan struct{})
	one.ended = ended
	r.reflectors.Go(func() {
		defer close(ended)
		defer one.stop()
		err := ErrAbandoned // remains if Run calls runtime.Goexit
		defer func() {
			if err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				r.errs = append(r.errs, fmt.Errorf("informer %s, %v: %w", s.target.Name, one.Scope, err))
				r.cancel()
			}
		}()
		err = one.Run(ctx)
	})
}

// noted is called when the state of a part has changed, as it has when the part is synced.
func (s *Reflectors[T]) noted() {
	s.changed.Announce()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkSyncedLocked()
}

// checkSyncedLocked latches that all parts are filled. Without parts, nothing is synced. While the cache
// holds the objects of a part that is dropped, it may lack others of that part, so Drop checks again when
// they are removed.
func (s *Reflectors[T]) checkSyncedLocked() {
	if !s.synced.IsSet() && len(s.all) > 0 && !s.dropping && !slices.ContainsFunc(s.all, func(one *part) bool { return !one.IsSynced() }) {
		s.synced.Set()
	}
}

// Covered reports whether no part, also of those that were dropped, has ever left out an object of its
// place.
func (s *Reflectors[T]) Covered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.partial
}

// Sources implements [Group].
func (s *Reflectors[T]) Sources() []*Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Source, len(s.all))
	for n, one := range s.all {
		all[n] = one.Source
	}
	return all
}

// State returns the state of the reflector that is furthest from a watch. Among equals it returns
// the first.
func (s *Reflectors[T]) State() reflector.State {
	worst, distance := reflector.State{Phase: reflector.Stopped}, 0
	for _, one := range s.Sources() {
		state := one.State()
		if d := distanceOf(state, one.IsSynced()); d > distance {
			worst, distance = state, d
		}
	}
	return worst
}

// distanceOf returns how far a reflector is from a watch.
func distanceOf(s reflector.State, synced bool) int {
	distance := 1 + slices.Index([]reflector.Phase{reflector.Watching, reflector.Polling, reflector.Opening, reflector.Listing, reflector.Stopped, reflector.BackingOff}, s.Phase)
	if !synced {
		distance += 10
	}
	return distance
}

// Changed implements [Feed].
func (s *Reflectors[T]) Changed(seen reflector.State) <-chan struct{} {
	// Compare after the channel was taken: a change in between closes the channel.
	changed := s.changed.Next()
	now := s.State()
	now.ResourceVersion, now.LastContact = seen.ResourceVersion, seen.LastContact // they change all the time
	if now != seen {                                                              // errors in a State are pointers, so that this does not panic
		return lifecycle.Closed()
	}
	return changed
}

// Synced implements [Feed].
func (s *Reflectors[T]) Synced() <-chan struct{} { return s.synced.Done() }
