package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/store"
)

// Source is what can be guarded: a [store.Cache], the [store.View] of one, or an informer.
type Source[T any] interface {
	Follow(follower store.Follower[T]) (stop func())
}

// Guard knows what the objects of a cache are to look like. See the package documentation
// for what it finds. All methods are safe for concurrent use.
type Guard[T any] struct {
	name string
	to   *Reporter
	stop func()

	// mu protects the fields below it. The cache's writer takes it inside its own lock.
	mu     sync.Mutex
	states map[store.Key][]*state[T]
	told   bool // that an object cannot be guarded
}

// state is one state of an object that somebody has: the cache, or a subscriber.
type state[T any] struct {
	key     store.Key
	object  T
	encoded []byte // nil if it cannot be
	cached  bool
	// hands counts the uses of those who have it in hand. since are all who had, since it
	// was last known good, and earlier those before.
	hands          map[string]int
	since, earlier map[string]bool
}

// Watch guards the objects of a cache, those that it holds and those to come. The name is
// for the errors. Guard a cache before others follow it: they are then told of objects that
// the guard knows.
func Watch[T any](name string, source Source[T], to *Reporter) *Guard[T] {
	g := &Guard[T]{name: name, to: to, states: map[store.Key][]*state[T]{}}
	g.stop = source.Follow((*follower[T])(g))
	to.add(g)
	return g
}

// Check compares all objects now. It returns a [*MutationError] for each that was changed
// since the last comparison, joined, and does not tell the [Reporter].
func (g *Guard[T]) Check() error { return errors.Join(g.check()...) }

func (g *Guard[T]) check() (errs []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := make([]store.Key, 0, len(g.states))
	for key := range g.states {
		keys = append(keys, key)
	}
	sortKeys(keys)
	for _, key := range keys {
		for _, s := range g.states[key] {
			errs = append(errs, g.verifyLocked(s))
		}
	}
	return errs
}

// sortKeys is not inlined where somebody has a guard, since it would be compiled there once more.
//
//go:noinline
func sortKeys(keys []store.Key) { slices.SortFunc(keys, store.Key.Compare) }

// Report is Check that tells the [Reporter] of each change.
func (g *Guard[T]) Report() { g.report(g.check()) }

// Stop ends guarding, and returns what [Guard.Check] does.
func (g *Guard[T]) Stop() error {
	g.stop()
	err := g.Check()
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.states)
	return err
}

// Given says that somebody has objects of a key in hand, until the function that it returns
// is called: then they are compared. Nil objects are left out.
func (g *Guard[T]) Given(subscriber string, key store.Key, objects ...T) (back func()) {
	var given []*state[T]
	var errs []error
	g.mu.Lock()
	for _, object := range objects {
		if isNil(object) {
			continue
		}
		s := g.findLocked(key, object)
		if s == nil {
			s = g.addLocked(key, object, &errs)
		} else {
			errs = append(errs, g.verifyLocked(s))
		}
		s.hands[subscriber]++
		s.since[subscriber] = true
		given = append(given, s)
	}
	g.mu.Unlock()
	g.report(errs)
	return func() { g.back(subscriber, given) }
}

func (g *Guard[T]) back(subscriber string, given []*state[T]) {
	var errs []error
	g.mu.Lock()
	for _, s := range given {
		errs = append(errs, g.verifyLocked(s))
		if s.hands[subscriber]--; s.hands[subscriber] == 0 {
			delete(s.hands, subscriber)
			delete(s.since, subscriber)
			s.earlier[subscriber] = true
		}
		g.forgetLocked(s)
	}
	g.mu.Unlock()
	g.report(errs)
}

// report tells of what was found, without a lock of the guard.
func (g *Guard[T]) report(errs []error) {
	for _, err := range errs {
		if err != nil {
			g.to.tell(err)
		}
	}
}

func (g *Guard[T]) findLocked(key store.Key, object T) *state[T] {
	for _, s := range g.states[key] {
		if same(s.object, object) {
			return s
		}
	}
	return nil
}

// heldLocked returns the state that the cache holds under a key, which cannot be found by an
// object that cannot be compared.
func (g *Guard[T]) heldLocked(key store.Key) *state[T] {
	for _, s := range g.states[key] {
		if s.cached {
			return s
		}
	}
	return nil
}

// addLocked begins to watch a state.
func (g *Guard[T]) addLocked(key store.Key, object T, errs *[]error) *state[T] {
	s := &state[T]{key: key, object: object, hands: map[string]int{}, since: map[string]bool{}, earlier: map[string]bool{}}
	var err error
	if s.encoded, err = encode(object); err != nil && !g.told {
		g.told = true
		*errs = append(*errs, &EncodeError{Guard: g.name, Key: key, Err: err})
	}
	g.states[key] = append(g.states[key], s)
	return s
}

// forgetLocked forgets a state that nobody has.
func (g *Guard[T]) forgetLocked(s *state[T]) {
	if s.cached || len(s.hands) > 0 {
		return
	}
	rest := slices.DeleteFunc(g.states[s.key], func(other *state[T]) bool { return other == s })
	if len(rest) == 0 {
		delete(g.states, s.key)
		return
	}
	g.states[s.key] = rest
}

// verifyLocked returns how a state was changed since the last time, or nil.
func (g *Guard[T]) verifyLocked(s *state[T]) error {
	if s.encoded == nil {
		return nil
	}
	is, err := encode(s.object)
	if err == nil && bytes.Equal(s.encoded, is) {
		for name := range s.since {
			if s.hands[name] == 0 {
				delete(s.since, name)
				s.earlier[name] = true
			}
		}
		return nil
	}
	e := suspicion(s.since, s.earlier)
	e.Guard, e.Key = g.name, s.key
	if err != nil {
		e.Path, e.Was, e.Is = "the object", "encodable", err.Error()
	} else {
		e.Path, e.Was, e.Is = firstDifference(s.encoded, is)
	}
	s.encoded = is // what comes next is another change
	return e
}

// suspicion returns an error that says who had an object since it was compared, and who before. It
// is not inlined: see sortKeys.
//
//go:noinline
func suspicion(since, earlier map[string]bool) *MutationError {
	e := &MutationError{Suspects: slices.Sorted(maps.Keys(since))}
	for name := range earlier {
		if !since[name] {
			e.Earlier = append(e.Earlier, name)
		}
	}
	slices.Sort(e.Earlier)
	return e
}

// encode returns the JSON of an object.
func encode[T any](object T) (encoded []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
	}()
	return json.Marshal(object)
}

// same reports whether two values are one object: pointers by where they point, and
// values by what they are.
func same[T any](a, b T) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	if !va.IsValid() || !vb.IsValid() || va.Type() != vb.Type() {
		return false
	}
	switch va.Kind() {
	case reflect.Map, reflect.Slice:
		return va.UnsafePointer() == vb.UnsafePointer() && va.Len() == vb.Len()
	}
	return va.Comparable() && any(a) == any(b)
}

// isNil reports whether a value is nil, or a pointer that is.
func isNil[T any](object T) bool {
	v := reflect.ValueOf(object)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
