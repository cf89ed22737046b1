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

var (
	// ErrNotScoped means that a scope was added to an informer that was not made by
	// [NewScoped], or dropped from one.
	ErrNotScoped = errors.New("informer has one client for everything: make one with NewScoped")

	// ErrNoScope means that a scope is to be dropped that the informer does not have.
	ErrNoScope = errors.New("informer has no such scope")
)

// ScopeError says what is wrong with one scope of an informer. Err is [ErrNotScoped],
// [ErrNoScope], that the scope overlaps another one ([store.ErrOverlap]), or what its
// reflector returned.
type ScopeError struct {
	// Informer is the informer's name: see [WithName].
	Informer string
	Scope    store.Scope
	Err      error
}

// Error names the informer and the scope.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("informer %s, %v: %v", e.Informer, e.Scope, e.Err)
}

// Unwrap returns Err.
func (e *ScopeError) Unwrap() error { return e.Err }

// NewScoped returns an informer of several namespaces, or clusters, in one cache. Add
// each with [AddScope], before or while Run runs; without one there is nothing to watch.
//
//	pods := informer.NewScoped(store.ObjectKey[*corev1.Pod])
//	err := informer.AddScope(pods, store.Scope{Cluster: "west"}, west.CoreV1().Pods(""))
func NewScoped[T any](key store.KeyFunc[T], opts ...Option) *Informer[T] {
	i := newInformer(key, opts)
	i.feed = &scopes[T]{name: i.name, cache: i.cache, synced: make(chan struct{})}
	return i
}

// AddScope makes a scoped informer hold, besides what it does, the objects of a client:
// those of one namespace, of one cluster, or of one namespace of one cluster. Their keys
// have the scope's cluster. The client must be of the scope's namespace, if it has one.
//
// While Run runs it begins at once. Subscribers are told of the objects as initial
// additions. It returns a [*ScopeError] if the informer is not scoped, or has a scope
// with some of the same objects. The options are those of this reflector, on top of those
// that [WithReflector] gave for all of them; its name is that of informer and scope. A
// failure that is final for one reflector ends Run for all.
func AddScope[T reflector.Object, L any](i *Informer[T], scope store.Scope, client reflector.Client[T, L], opts ...reflector.Option) error {
	return i.addScope(scope, opts, func(part store.Store[T], opts []reflector.Option) reflecting {
		return reflector.New(client, part, opts...)
	})
}

// AddTransformedScope is [AddScope] for an informer of what fn makes of the objects of a
// client: see [NewTransformed].
func AddTransformedScope[T reflector.Object, L, S any](i *Informer[S], scope store.Scope, client reflector.Client[T, L], fn func(T) (S, error), opts ...reflector.Option) error {
	return i.addScope(scope, opts, func(part store.Store[S], opts []reflector.Option) reflecting {
		return reflector.New(client, store.Transform(part, store.ObjectKey[T], fn), opts...)
	})
}

func (i *Informer[T]) addScope(scope store.Scope, opts []reflector.Option, reflect func(store.Store[T], []reflector.Option) reflecting) error {
	all, ok := i.feed.(*scopes[T])
	if !ok {
		return &ScopeError{i.name, scope, ErrNotScoped}
	}
	own := append(i.reflectorOptions(), reflector.WithName(fmt.Sprintf("%s, %v", i.name, scope)))
	err := all.add(scope, func(part store.Store[T]) reflecting { return reflect(part, append(own, opts...)) })
	if err != nil {
		return &ScopeError{i.name, scope, err}
	}
	return nil
}

// DropScope ends the watch of a scope and forgets what is in it: subscribers are told of
// a deletion for each object. It returns when that is done, and [ErrNoScope] in a
// [*ScopeError] if there is no such scope. The scope may then be added again.
//
// It waits until the reflector has ended, so it must not be called from hooks of that.
// Handlers may call it.
func (i *Informer[T]) DropScope(scope store.Scope) error {
	all, ok := i.feed.(*scopes[T])
	if !ok {
		return &ScopeError{i.name, scope, ErrNotScoped}
	}
	if !all.drop(scope) {
		return &ScopeError{i.name, scope, ErrNoScope}
	}
	return nil
}

// scopes are reflectors that share a cache, each of which fills a partition of it.
type scopes[T any] struct {
	name  string
	cache *store.Cache[T]

	// admin is held while scopes are added and dropped, and while a reflector that is
	// dropped ends. Lock order: admin, then mu.
	admin sync.Mutex

	// mu protects the fields below it.
	mu      sync.Mutex
	all     []*scoped     // in the order in which they came
	run     *scopedRun    // nil unless Run runs
	changed chan struct{} // closed by the next change; nil if nobody waits
	synced  chan struct{}
}

// scoped is one of several reflectors.
type scoped struct {
	*source
	stop  context.CancelFunc // nil unless it runs
	ended chan struct{}      // closed when it has ended; nil before it runs
}

// scopedRun is what belongs to one call of Run. Guarded by scopes.mu.
type scopedRun struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	ending  bool // nothing is started any more
	errs    []error
}

func (s *scopes[T]) add(scope store.Scope, reflect func(store.Store[T]) reflecting) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	if s.find(scope) != nil {
		return store.ErrOverlap
	}
	part, err := s.cache.Partition(scope)
	if err != nil {
		return err
	}
	one := &scoped{source: newSource(reflect(part))}
	one.scope, one.gone, one.source.changed = scope, make(chan struct{}), s.change
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	s.changeLocked()
	if s.run != nil {
		s.startLocked(s.run, one)
	}
	return nil
}

func (s *scopes[T]) drop(scope store.Scope) bool {
	s.admin.Lock()
	defer s.admin.Unlock()
	one := s.find(scope)
	if one == nil {
		return false
	}
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *scoped) bool { return other == one })
	stop, ended := one.stop, one.ended
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
	// Not before: a late write to the partition would be an error.
	s.cache.Drop(scope)
	close(one.gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeLocked()
	s.checkSyncedLocked()
	return true
}

func (s *scopes[T]) find(scope store.Scope) *scoped {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.scope == scope {
			return one
		}
	}
	return nil
}

// Run runs all reflectors until ctx ends or one of them fails for good.
func (s *scopes[T]) Run(ctx context.Context) error {
	r := &scopedRun{}
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
	r.ending = true
	s.mu.Unlock()
	r.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = nil
	return errors.Join(r.errs...)
}

func (s *scopes[T]) startLocked(r *scopedRun, one *scoped) {
	if r.ending {
		return
	}
	var ctx context.Context
	ctx, one.stop = context.WithCancel(r.ctx)
	ended := make(chan struct{})
	one.ended = ended
	r.running.Go(func() {
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
	r.running.Go(func() {
		select {
		case <-one.Synced():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.checkSyncedLocked()
		case <-ctx.Done():
		}
	})
}

// checkSyncedLocked latches that all scopes are filled. Of no scope nothing is known.
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

// State returns the state of the reflector that is furthest from a watch; of those that
// are equally far, the first one's.
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

// distanceOf says how far a reflector is from a watch.
func distanceOf(s ScopeState) int {
	distance := 1 + slices.Index([]reflector.Phase{reflector.Watching, reflector.Listing, reflector.Stopped, reflector.Waiting}, s.State.Phase)
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
	// Looked at afterwards: a change in between closes the channel.
	if !sameState(s.State(), seen) {
		now := make(chan struct{})
		close(now)
		return now
	}
	return changed
}

// sameState compares states but for what moves all the time.
func sameState(a, b reflector.State) bool {
	a.ResourceVersion, a.Contact = b.ResourceVersion, b.Contact
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
