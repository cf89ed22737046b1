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

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/store"
)

// Source is a type that a guard can watch: a [store.Cache], the [store.View] of one, or an
// informer.
type Source[T any] interface {
	Follow(follower store.Follower[T]) (stop func())
}

// Guard has the original form of the objects of a cache. See the package documentation for the
// changes that it finds. All methods are safe for concurrent use.
type Guard[T any] struct {
	name string
	to   *Reporter

	// mu protects the fields below it. The writer of the cache takes it inside its own lock.
	mu     sync.Mutex
	states map[store.Key][]*state[T]
	told   bool // true once the guard has reported an EncodeError
}

// state is one state of an object that the cache holds, or that a subscriber uses.
type state[T any] struct {
	key     store.Key
	object  T
	encoded []byte // nil if the object has no JSON form
	cached  bool
	// hands counts the current uses by each subscriber. since has the subscribers that used the
	// object since the last comparison without a difference. earlier has the last subscribers before
	// that, the latest one last.
	hands   map[string]int
	since   map[string]bool
	earlier []string
}

// maxEarlier bounds state.earlier: a program that subscribes for each of its clients uses an object under ever new
// names.
const maxEarlier = 16

// before records that a subscriber used the object before the last comparison.
func (s *state[T]) before(subscriber string) {
	delete(s.since, subscriber)
	s.earlier = append(slices.DeleteFunc(s.earlier, func(other string) bool { return other == subscriber }), subscriber)
	s.earlier = s.earlier[max(len(s.earlier)-maxEarlier, 0):]
}

// Watch guards the objects that a cache holds now and later. Errors contain the name. Guard a cache
// before others follow it, so that the guard knows each object before they receive it.
func Watch[T any](name string, source Source[T], to *Reporter) *Guard[T] {
	g := &Guard[T]{name: name, to: to, states: map[store.Key][]*state[T]{}}
	source.Follow((*follower[T])(g))
	to.add(g)
	return g
}

// Check compares all objects now. It returns the joined [*MutationError] values of the objects that
// changed since the last comparison. It does not call the [Reporter].
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

// sortKeys is not inlined, so that packages with a guard do not compile the sort again.
//
//go:noinline
func sortKeys(keys []store.Key) { slices.SortFunc(keys, store.Key.Compare) }

// Report is Check, but passes the errors to the [Reporter].
func (g *Guard[T]) Report() { g.report(g.check()) }

// Given says that a subscriber uses objects of a key until it calls back. The guard compares the
// objects before and after. It skips nil objects.
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
			s.before(subscriber)
		}
		g.forgetLocked(s)
	}
	g.mu.Unlock()
	g.report(errs)
}

// report passes errors to the Reporter, without a lock of the guard.
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

// heldLocked returns the state that the cache holds under a key. It also works for an object that
// cannot be compared.
func (g *Guard[T]) heldLocked(key store.Key) *state[T] {
	for _, s := range g.states[key] {
		if s.cached {
			return s
		}
	}
	return nil
}

// addLocked adds a state to watch.
func (g *Guard[T]) addLocked(key store.Key, object T, errs *[]error) *state[T] {
	s := &state[T]{key: key, object: object, hands: map[string]int{}, since: map[string]bool{}}
	var err error
	if s.encoded, err = encode(object); err != nil && !g.told {
		g.told = true
		*errs = append(*errs, &EncodeError{Guard: g.name, Key: key, Err: err})
	}
	g.states[key] = append(g.states[key], s)
	return s
}

// forgetLocked removes a state that neither the cache nor a subscriber has.
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

// verifyLocked returns an error if a state has changed since the last comparison.
func (g *Guard[T]) verifyLocked(s *state[T]) error {
	if s.encoded == nil {
		return nil
	}
	is, err := encode(s.object)
	if err == nil && bytes.Equal(s.encoded, is) {
		for name := range s.since {
			if s.hands[name] == 0 {
				s.before(name)
			}
		}
		return nil
	}
	e := suspicion(s.since, s.earlier)
	e.Guard, e.Key = g.name, s.key
	if err != nil {
		e.Path, e.Was, e.Is = "the object", "encodable", fmt.Sprint(err) // its method Error may panic
	} else {
		e.Path, e.Was, e.Is = firstDifference(s.object, s.encoded, is)
	}
	s.encoded = is // so that the guard reports only new changes next time
	return e
}

// suspicion returns an error with the subscribers that used an object since the last comparison,
// and before. It is not inlined: see sortKeys.
//
//go:noinline
func suspicion(since map[string]bool, earlier []string) *MutationError {
	e := &MutationError{Suspects: slices.Sorted(maps.Keys(since))}
	for _, name := range earlier {
		if !since[name] {
			e.Earlier = append(e.Earlier, name)
		}
	}
	slices.Sort(e.Earlier)
	return e
}

// encode returns the JSON of an object. The text of an error quotes no value of the object.
func encode[T any](object T) (encoded []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = discreet.Panicked(value)
		}
	}()
	if encoded, err = json.Marshal(object); err != nil {
		err = discreet.Error(err)
	}
	return encoded, err
}

// same reports whether two values are one object. It compares pointers by address, and other values
// by content.
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

// isNil reports whether a value is nil, or a nil pointer.
func isNil[T any](object T) bool {
	v := reflect.ValueOf(object)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
