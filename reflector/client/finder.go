package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// finder finds the resource of a kind by discovery, and remembers it. All views of a client share
// one finder.
type finder struct {
	kind schema.GroupVersionKind
	from directory
	turn chan struct{} // capacity 1: held by the goroutine that asks the directory; protects missed and renewed

	missed  bool      // the last answer was that the kind does not exist
	renewed time.Time // the last renewal

	mu         sync.Mutex // protects the fields below
	found      string
	namespaced bool   // of the found resource
	gone       string // a resource found earlier that the server no longer serves
}

func newFinder(kind schema.GroupVersionKind, from directory) *finder {
	return &finder{kind: kind, from: from, turn: make(chan struct{}, 1)}
}

// directory maps a kind to its resource.
type directory interface {
	// find returns the name of the resource and whether it is namespaced. The error is an
	// ErrNotServed if the kind does not exist. A finder calls find and renew by one goroutine at a time.
	find(ctx context.Context, kind schema.GroupVersionKind) (resource string, namespaced bool, err error)
	// renew discards cached answers, so that the next find asks the server again. It returns false
	// if there is nothing to discard.
	renew(ctx context.Context) bool
}

// known returns the resource if the finder knows it, and the name of the one that is gone.
func (f *finder) known() (found string, namespaced bool, gone string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.namespaced, f.gone
}

// forget records that the server no longer serves a resource. The kind may now have another
// resource.
func (f *finder) forget(resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == resource {
		f.found, f.gone = "", resource
	}
}

// find returns the name of the resource, and whether it has namespaces. Only one goroutine at a time
// asks the directory: client-go's mapper holds a lock during discovery, and a goroutine that waits
// for that lock does not notice the end of ctx. Callers can still wait for that lock if the
// resources of several finders share the mapper.
func (f *finder) find(ctx context.Context) (resource string, namespaced bool, err error) {
	if found, namespaced, _ := f.known(); found != "" {
		return found, namespaced, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", false, fmt.Errorf("discovery of %s: %w", f.kind, ctx.Err())
	}
	found, namespaced, gone := f.known()
	if found != "" {
		return found, namespaced, nil
	}
	resource, namespaced, err = f.from.find(ctx, f.kind)
	// Another goroutine may have renewed the directory already, so ask it first.
	same := err == nil && resource == gone || f.missed && errors.Is(err, protocol.ErrNotServed)
	if same && f.renew(ctx) {
		resource, namespaced, err = f.from.find(ctx, f.kind)
	}
	f.missed = errors.Is(err, protocol.ErrNotServed)
	switch {
	case f.missed:
		return "", false, err
	case err != nil:
		return "", false, fmt.Errorf("discovery of %s: %w", f.kind, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found, f.namespaced, f.gone = resource, namespaced, ""
	return resource, namespaced, nil
}

// renew renews the directory, but not within resetInterval: the requests of all views would discover
// everything again while the server does not serve the kind.
func (f *finder) renew(ctx context.Context) bool {
	if !f.renewed.IsZero() && time.Since(f.renewed) < resetInterval || !f.from.renew(ctx) {
		return false
	}
	f.renewed = time.Now()
	return true
}

// mapped is a directory that uses a REST mapper, which other resources may use as well.
type mapped struct{ meta.RESTMapper }

func (m mapped) find(ctx context.Context, kind schema.GroupVersionKind) (string, bool, error) {
	mapping, err := m.mapping(ctx, kind)
	if meta.IsNoMatchError(err) {
		return "", false, fmt.Errorf("%w: %w", protocol.ErrNotServed, err)
	}
	if err != nil {
		return "", false, err
	}
	return mapping.Resource.Resource, mapping.Scope.Name() != meta.RESTScopeNameRoot, nil
}

// mapping passes the context to a mapper that takes one. client-go 0.36 has no name for such a mapper.
func (m mapped) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	with, ok := m.RESTMapper.(interface {
		RESTMappingWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	})
	if ok {
		return with.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	}
	return m.RESTMapping(kind.GroupKind(), kind.Version)
}

func (m mapped) renew(ctx context.Context) bool {
	var reset func()
	switch mapper := m.RESTMapper.(type) {
	case interface{ ResetWithContext(ctx context.Context) }:
		reset = func() { mapper.ResetWithContext(ctx) }
	case meta.ResettableRESTMapper:
		reset = mapper.Reset
	}
	if reset == nil || !resets.due(m.RESTMapper) {
		return false
	}
	reset()
	return true
}

// resetInterval is the minimum time between renewals by one finder, and between resets of a mapper
// that resources may share. Without it, a hundred kinds that are not installed would make all other
// users wait for discovery all the time.
const resetInterval = 10 * time.Second

// resets records when mappers were reset, for resetInterval.
var resets resetTimes

type resetTimes struct {
	mu   sync.Mutex        // protects last
	last map[any]time.Time // by mapper
}

// due reports whether a mapper may be reset. If so, it records a reset now.
func (r *resetTimes) due(mapper any) bool {
	if !reflect.ValueOf(mapper).Comparable() {
		return true // the map cannot recognize it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.last, func(_ any, at time.Time) bool { return now.Sub(at) >= resetInterval })
	if _, lately := r.last[mapper]; lately {
		return false
	}
	if r.last == nil {
		r.last = make(map[any]time.Time)
	}
	r.last[mapper] = now
	return true
}
