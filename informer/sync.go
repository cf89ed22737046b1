package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

// ScopeState is the state of one reflector of an informer.
type ScopeState struct {
	// Scope is the scope that the reflector fills. It is the zero Scope unless the informer is one
	// of package scoped.
	Scope store.Scope
	State reflector.State
	// Synced is true once the reflector has its first list.
	Synced bool
	// Broken is the time since which there is no watch; zero while there is one.
	Broken time.Time
}

func stateOf(s *feed.Source) ScopeState {
	return ScopeState{Scope: s.Scope, State: s.State(), Synced: s.IsSynced(), Broken: s.Broken()}
}

// watchLife is the longest duration of a watch: the reflector asks the server to end it by then. A
// watch that is silent for longer is dead.
const watchLife = 10 * time.Minute

const defaultStaleness = 2 * time.Minute

// WithStaleness sets how long the watch may be broken until [Informer.Ready] returns an error. The
// default is 2 minutes. 0 or less means no limit.
func WithStaleness(limit time.Duration) Option {
	return optionFunc(func(o *options) { o.staleness = limit })
}

// SyncError says why an informer is not synced.
type SyncError struct {
	// Informer is the informer's name: see [WithName].
	Informer string
	// Unsynced are the reflectors that have not filled the cache yet, with their phase, last
	// failure and number of attempts. It is empty if the cache is filled.
	Unsynced []ScopeState
	// Lagging are the handlers that did not get every object yet: the name of each, and the number
	// of objects that are left.
	Lagging []string
	// Err is why the wait ended: the cause of the context, or the error of the reflector or of the store
	// behind the cache. It may be nil.
	Err   error
	empty bool // there is no reflector
}

// Error names the reflectors and the subscribers that are not synced, and the cause.
func (e *SyncError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "informer %s is not synced", e.Informer)
	if e.empty {
		b.WriteString("; it has no scope yet")
	}
	for _, l := range e.Unsynced {
		fmt.Fprintf(&b, "; reflector%s", describe(l))
	}
	for _, handler := range e.Lagging {
		fmt.Fprintf(&b, "; subscriber %s", handler)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns Err and the failures of the reflectors.
func (e *SyncError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, l := range e.Unsynced {
		if l.State.Err != nil {
			errs = append(errs, l.State.Err)
		}
	}
	return errs
}

// describe describes the state of a reflector.
func describe(s ScopeState) string {
	text := ""
	if s.Scope != (store.Scope{}) {
		text = " of " + s.Scope.String()
	}
	text += " is " + string(s.State.Phase)
	if s.State.Attempt > 0 {
		text += fmt.Sprintf(" after attempt %d", s.State.Attempt)
	}
	if s.State.Err != nil {
		text += fmt.Sprintf(" (%v)", s.State.Err)
	}
	return text
}

// StaleError says that an informer was synced, but has no working watch any more.
type StaleError struct {
	// Informer is the informer's name: see [WithName].
	Informer string
	// Scope is the state of the affected reflector. State.LastContact is the time of the last
	// contact with the server.
	Scope ScopeState
	// For is how long there has been no watch, or how long the watch has been silent.
	For time.Duration
}

// Error says how long the watch has been broken, and why.
func (e *StaleError) Error() string {
	return fmt.Sprintf("informer %s has had no working watch for %v; reflector%s", e.Informer, e.For.Round(time.Second), describe(e.Scope))
}

// Unwrap returns the last failure.
func (e *StaleError) Unwrap() error { return e.Scope.State.Err }

// WaitForSync waits until the cache is filled and every handler got every object of the first list.
// It then returns nil. When ctx ends, it returns a [*SyncError] that names the missing parts. If
// the reflector or the store behind the cache fails, so that Run ends, it returns a SyncError with that
// failure at once.
//
// It waits for the handlers of [Informer.Handle] that have subscribed when the cache is filled, and
// not for subscribers that pull. It may be called before Run. If Run fails before that, it fails until
// Run is called again. Once it has returned nil, later calls wait only for handlers and scopes that were
// added since, and return nil although Run has ended or failed: [Informer.Ready] reports whether the
// informer is up to date.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	failed := i.lastFailure()
	wait := func(synced, gone <-chan struct{}) error {
		var err error
		select {
		case <-synced:
		case <-gone:
		case <-failed.Done():
			err = context.Cause(failed)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err == nil || lifecycle.IsClosed(synced) {
			return nil
		}
		return i.unsynced(err)
	}
	if err := wait(i.feed.Synced(), nil); err != nil {
		return err
	}
	for _, s := range i.feed.Sources() {
		if err := wait(s.Synced(), s.Gone); err != nil {
			return err
		}
	}
	for _, s := range i.handlers() {
		if err := wait(s.Synced(), s.closing); err != nil {
			return err
		}
	}
	return nil
}

// unsynced returns the unsynced parts, with a cause.
func (i *Informer[T]) unsynced(cause error) *SyncError {
	sources := i.feed.Sources()
	e := &SyncError{Informer: i.name, Err: cause, empty: len(sources) == 0 && !lifecycle.IsClosed(i.feed.Synced())}
	for _, s := range sources {
		if state := stateOf(s); !state.Synced {
			e.Unsynced = append(e.Unsynced, state)
		}
	}
	for _, s := range i.handlers() {
		if !lifecycle.IsClosed(s.Synced()) {
			e.Lagging = append(e.Lagging, s.lagging())
		}
	}
	return e
}

// lagging describes a handler that is not synced.
func (s *Subscription[T]) lagging() string {
	if lag := s.Lag(); lag > 0 {
		return fmt.Sprintf("%s has %d object(s) left", s.name, lag)
	}
	return s.name + " waits for the first list"
}

// Ready returns nil if the informer is synced, as in [Informer.WaitForSync], and its watch works.
// Use it for a readiness probe. It returns a [*SyncError] if the informer is not synced, and a
// [*StaleError] if there has been no watch for longer than [WithStaleness] allows. The next watch
// makes the informer ready again. An informer of package fleet is not ready as soon as its kind is no
// longer served.
func (i *Informer[T]) Ready() error {
	if e := i.unsynced(nil); len(e.Lagging) > 0 {
		return e
	}
	return i.CacheReady(ours.Only{})
}

// CacheReady is Ready for those who only read the cache: it does not ask for subscribers.
func (i *Informer[T]) CacheReady(ours.Only) error {
	if e := i.unsynced(nil); len(e.Unsynced) > 0 || !lifecycle.IsClosed(i.feed.Synced()) {
		return e
	}
	var errs []error
	for _, s := range i.feed.Sources() {
		state := stateOf(s)
		since, limit, silence := state.Broken, i.staleness, time.Duration(0)
		if state.State.Phase == reflector.Stopped && errors.Is(state.State.Err, reflector.ErrNotServed) {
			// Package fleet has stopped the reflector until the kind is served again, perhaps in this moment.
			limit, since = -1, cmp.Or(since, state.State.Since)
		} else if limit <= 0 {
			continue
		}
		if since.IsZero() {
			// A watch may have no events, and a server may send no bookmarks.
			since, silence = state.State.LastContact, watchLife
		}
		if age := time.Since(since); age-silence > limit { // no sum: the limit may be the longest duration
			errs = append(errs, &StaleError{Informer: i.name, Scope: state, For: age})
		}
	}
	return errors.Join(errs...)
}

// State returns the state of the reflector, and why the cache is not filled. With several
// reflectors it is the state of the reflector that is furthest from a watch: see [Informer.Scopes].
func (i *Informer[T]) State() reflector.State { return i.feed.State() }

// Changed returns a channel that is closed when the state differs from the given one: see
// [reflector.KubernetesResourceReflector.Changed]. With several reflectors any change may close it.
func (i *Informer[T]) Changed(seen reflector.State) <-chan struct{} { return i.feed.Changed(seen) }

// Synced returns a channel that is closed once the cache has been filled. For a scoped informer, it
// is closed when there is at least one scope and all scopes are filled. [Subscription.Synced] shows
// whether a subscriber got these objects.
func (i *Informer[T]) Synced() <-chan struct{} { return i.feed.Synced() }

// Scopes returns the state of each reflector, in the order in which they were added. There is one
// unless the informer is one of package scoped.
func (i *Informer[T]) Scopes() []ScopeState {
	sources := i.feed.Sources()
	states := make([]ScopeState, len(sources))
	for n, s := range sources {
		states[n] = stateOf(s)
	}
	return states
}

// lastFailure returns a context whose cause is the failure of the last Run, or of the running one if it
// fails later.
func (i *Informer[T]) lastFailure() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed
}
