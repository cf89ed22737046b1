package controllerruntime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// OwnedSelectors are label selectors of owned objects that a program may add and remove while the cache
// runs: see [Reference]. The zero value has none. All methods are safe for concurrent use, but must not
// be called from a watch error handler, because Remove waits for watches.
type OwnedSelectors struct {
	change sync.Mutex // for one change at a time, which may wait for watches

	mu      sync.Mutex        // protects the fields below it; taken after change
	all     []labels.Selector // never changed in place
	running map[*merged][]*source
}

// Add adds a selector. The cache lists and watches only its objects, and then holds them whole. Until
// their list has arrived, they are shown as before, and a List of them returns [ErrNotOwned]: see
// WaitForSync. Add does nothing if there is an equal selector, or if the selector selects nothing. It
// returns an error that wraps [ErrReference] if the selector selects every object.
func (s *OwnedSelectors) Add(selector labels.Selector) error {
	if selector == nil || selector.Empty() {
		return fmt.Errorf("%w: the selector of owned objects selects every object", ErrReference)
	}
	s.change.Lock()
	defer s.change.Unlock()
	if _, some := selector.Requirements(); !some || slices.ContainsFunc(s.selectors(), isEqual(selector)) {
		return nil
	}
	s.mu.Lock()
	running := slices.Collect(maps.Keys(s.running))
	s.mu.Unlock()
	for _, m := range running {
		s.addTo(m, selector)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clone(s.all), selector) // last, for listed
	return nil
}

// Remove removes a selector. When it returns, the cache has only the metadata of the objects that no
// other selector selects: a handler gets an update, never a deletion. Remove does nothing if there is no
// equal selector.
func (s *OwnedSelectors) Remove(selector labels.Selector) {
	if selector == nil {
		return
	}
	s.change.Lock()
	defer s.change.Unlock()
	dropped := map[*merged]*source{}
	s.mu.Lock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), isEqual(selector))
	for m, parts := range s.running {
		for _, p := range parts {
			if isEqual(selector)(p.selector) {
				dropped[m] = p
			}
		}
		s.running[m] = slices.DeleteFunc(parts, func(p *source) bool { return p == dropped[m] })
	}
	s.mu.Unlock()
	for m, p := range dropped {
		m.drop(p)
	}
}

// WaitForSync waits until the caches that run hold the objects of all selectors. It does not wait for
// selectors that are removed meanwhile, or for caches that stop. When ctx ends, it returns an error that
// names a selector without a list, and wraps an informer.SyncError with the last failure and the cause.
func (s *OwnedSelectors) WaitForSync(ctx context.Context) error {
	s.mu.Lock()
	var all []*source
	for _, parts := range s.running {
		all = append(all, parts...)
	}
	s.mu.Unlock()
	for _, p := range all {
		select {
		case <-p.informer.Informer().Synced():
		case <-p.over:
		case <-ctx.Done():
			if err := p.informer.Informer().WaitForSync(ctx); err != nil { // it knows why
				return fmt.Errorf("the owned objects of %q are not listed: %w", p.selector, err)
			}
		}
	}
	return nil
}

func isEqual(selector labels.Selector) func(labels.Selector) bool {
	return func(other labels.Selector) bool { return other.String() == selector.String() }
}

// selectors returns the selectors; nil for nil.
func (s *OwnedSelectors) selectors() []labels.Selector {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *OwnedSelectors) addTo(m *merged, selector labels.Selector) {
	p := m.add(selector)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[m] = append(s.running[m], p)
}

// join adds the selectors to an informer, and their changes until leave is called.
func (s *OwnedSelectors) join(m *merged) (leave func()) {
	if s == nil {
		return func() {}
	}
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	if s.running == nil {
		s.running = map[*merged][]*source{}
	}
	s.running[m] = nil
	s.mu.Unlock()
	for _, selector := range s.selectors() {
		s.addTo(m, selector)
	}
	return func() {
		s.change.Lock()
		defer s.change.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.running[m] {
			p.finish()
		}
		delete(s.running, m)
	}
}

// place is what an informer holds, or a List reads: the objects of a kind in a cache.
type place struct {
	cache     *kinds
	kind      schema.GroupVersionKind
	namespace string // empty for all
}

func (p place) overlaps(other place) bool {
	return p.cache == other.cache && p.kind == other.kind &&
		(p.namespace == other.namespace || p.namespace == "" || other.namespace == "")
}

// listed reports whether a List finds the objects of a selector, which is in s.all. An informer that is
// not filled has a source of the selector already or will get it, and a List waits for it.
func (s *OwnedSelectors) listed(selector labels.Selector, where place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, parts := range s.running {
		if m.place.overlaps(where) && m.isFilled() &&
			!slices.ContainsFunc(parts, func(p *source) bool { return isEqual(selector)(p.selector) && p.shown.Load() }) {
			return false
		}
	}
	return true
}

// owns reports whether every object that a selector selects is held whole.
func (r Reference) owns(selector labels.Selector, where place) bool {
	return implies(selector, r.Owned) || slices.ContainsFunc(r.Selectors.selectors(), func(owned labels.Selector) bool {
		return implies(selector, owned) && r.Selectors.listed(owned, where)
	})
}

// owned returns the selectors of owned objects, as text.
func (r Reference) owned(where place) string {
	var all []string
	if text := r.Owned.String(); text != "" {
		all = append(all, text)
	}
	for _, selector := range r.Selectors.selectors() {
		text := selector.String()
		if !r.Selectors.listed(selector, where) {
			text += " (not listed yet)"
		}
		all = append(all, text)
	}
	return strings.Join(all, " or ")
}

// implies reports whether every object that one selector selects is also selected by another. It may
// return false for selectors that imply the other in a way that it does not know.
func implies(selector, other labels.Selector) bool {
	wanted, selectable := other.Requirements()
	if !selectable {
		return false // other selects nothing
	}
	if selector == nil {
		return len(wanted) == 0
	}
	given, selectable := selector.Requirements()
	if !selectable {
		return true // selector selects nothing
	}
	for i := range wanted {
		if !slices.ContainsFunc(given, func(r labels.Requirement) bool { return requires(&r, &wanted[i]) }) {
			return false
		}
	}
	return true
}

// requires reports whether one requirement implies another.
func requires(given, wanted *labels.Requirement) bool {
	key := wanted.Key()
	if given.Key() != key {
		return false
	}
	switch given.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		for value := range given.Values() {
			if !wanted.Matches(labels.Set{key: value}) {
				return false
			}
		}
		return true
	case selection.DoesNotExist:
		return wanted.Matches(labels.Set{})
	case selection.NotEquals, selection.NotIn:
		excludes := wanted.Operator() == selection.NotEquals || wanted.Operator() == selection.NotIn
		return excludes && given.Values().IsSuperset(wanted.Values())
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		return wanted.Operator() == selection.Exists || given.Equal(*wanted)
	}
	return false
}
