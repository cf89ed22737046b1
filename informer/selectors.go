package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/feed"
	"k8s.io/apimachinery/pkg/labels"
)

// Selectors is a set of label selectors for informers with the option [WithSelectors]. It may
// change while they run. The zero value is an empty set. All methods are safe for concurrent use.
//
// Add and Remove wait for reflectors, so error handlers of a reflector must not call them. Handlers
// of events may.
type Selectors struct {
	change sync.Mutex        // for one change at a time, which may wait for reflectors
	all    []labels.Selector // Guarded by change

	mu      sync.Mutex        // never waits; a change takes it after change
	running []feed.Changeable // the feeds of running informers. Guarded by both locks for writes
}

// WithSelectors makes the informer hold each object that at least one of the selectors selects.
// Each selector has a reflector, which uses it in place of the label selector of [WithReflector].
// The informer merges the objects of all reflectors into one cache, with one sequence of events for
// each object:
//
//   - If several selectors select an object, the cache shows its newest state. The object leaves
//     when no selector selects it any more. A change of labels from one selector to another is a
//     modification if the other watch is as fast; otherwise it is a deletion and an addition.
//   - A slower watch never brings back an older state, or an object that another watch saw leave.
//     After more than 10,000 such objects, or if the first list of an added selector is older than
//     a deletion, an object may come back until that watch has received the deletion.
//   - An added selector sends additions that are not Initial. The objects of a removed selector are
//     deletions with [eventqueue.Event].OutOfScope set.
//   - The resource version of the cache is the lowest of the selectors. It goes back when an added
//     selector has an older list.
//   - The cache is synced when all selectors have their first list, also if there are none.
//   - If an index function fails, or the budget is exceeded, the informer reports it. It tries
//     again when the object changes, and with the next bookmark.
//
// A reconciler is not called for an object of a removed selector, or of a selector that has no list
// yet: see [Informer.Covers].
//
// The objects need resource versions. Of an object without one, the cache shows the state from the
// selector that was added first. Each selector that selects an object takes about 130 bytes for it.
// An informer of package scoped cannot have selectors: its Add returns an error. The default, for
// nil, is the label selector of WithReflector.
func WithSelectors(selectors *Selectors) Option {
	return optionFunc(func(o *options) { o.selectors = selectors })
}

// Add adds a selector. It does nothing if the set has an equal one, or if the selector selects
// nothing. [Selectors.WaitForSync] waits for its objects.
func (s *Selectors) Add(selector labels.Selector) {
	s.change.Lock()
	defer s.change.Unlock()
	if _, some := selector.Requirements(); !some || s.index(selector.String()) >= 0 {
		return
	}
	s.all = append(s.all, selector)
	for _, one := range s.running {
		one.AddSelector(selector)
	}
}

// Remove removes a selector. When it returns, the caches no longer hold the objects that only this
// selector selected. It does nothing if the set has no equal selector.
func (s *Selectors) Remove(selector labels.Selector) {
	s.change.Lock()
	defer s.change.Unlock()
	i := s.index(selector.String())
	if i < 0 {
		return
	}
	s.all = slices.Delete(s.all, i, i+1)
	for _, one := range s.running {
		one.DropSelector(selector.String())
	}
}

// WaitForSync waits until each running informer holds the objects of all selectors. When ctx ends,
// it returns the cause and names a reflector that has no list.
func (s *Selectors) WaitForSync(ctx context.Context) error {
	s.mu.Lock()
	running := slices.Clone(s.running)
	s.mu.Unlock()
	for _, one := range running {
		for _, source := range one.Sources() {
			select {
			case <-source.Synced():
			case <-source.Gone:
			case <-ctx.Done():
				return fmt.Errorf("selectors are not synced; reflector%s: %w", describe(stateOf(source)), context.Cause(ctx))
			}
		}
	}
	return nil
}

func (s *Selectors) index(text string) int {
	return slices.IndexFunc(s.all, func(other labels.Selector) bool { return other.String() == text })
}

// join gives the selectors to an informer, and their changes until leave is called. had are the
// selectors of its last Run.
func (s *Selectors) join(one feed.Changeable, had []string) (leave func()) {
	s.change.Lock()
	defer s.change.Unlock()
	for _, selector := range had {
		if s.index(selector) < 0 {
			one.DropSelector(selector)
		}
	}
	for _, selector := range s.all {
		one.AddSelector(selector)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, one)
	return func() {
		s.change.Lock()
		defer s.change.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running = slices.DeleteFunc(s.running, func(other feed.Changeable) bool { return other == one })
	}
}
