package reflector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// finder finds the resource of a kind, and remembers it.
type finder struct {
	kind       schema.GroupVersionKind
	namespaced bool // is what is wanted
	from       directory
	turn       chan struct{} // has room for one, who asks the directory
	missed     bool          // the last one was told that there is no such kind

	mu    sync.Mutex // protects the fields below
	found string
	gone  string // the server said so of a resource that was found
}

func newFinder(kind schema.GroupVersionKind, namespaced bool, from directory) *finder {
	return &finder{kind: kind, namespaced: namespaced, from: from, turn: make(chan struct{}, 1)}
}

// directory says which resource a kind is.
type directory interface {
	// find returns the name and whether there are namespaces; the error is an ErrNotServed
	// if there is no such kind.
	find(ctx context.Context, kind schema.GroupVersionKind) (resource string, namespaced bool, err error)
	// renew makes the server be asked again, and returns false if that would change nothing.
	renew(ctx context.Context) bool
}

// known returns the name of the resource if it was found, and the one that is gone.
func (f *finder) known() (found, gone string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.gone
}

// forget notes that the server does not know a resource: the kind may have become another one.
func (f *finder) forget(resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == resource {
		f.found, f.gone = "", resource
	}
}

// find returns the name of the resource. One at a time asks: client-go's mapper has a lock while
// the server is asked, and whoever waits for that does not hear that ctx ended. Only a mapper
// that several resources have may still make them wait so.
func (f *finder) find(ctx context.Context) (string, error) {
	if found, _ := f.known(); found != "" {
		return found, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("discovery of %s: %w", f.kind, ctx.Err())
	}
	found, gone := f.known()
	if found != "" {
		return found, nil
	}
	resource, namespaced, err := f.from.find(ctx, f.kind)
	// Somebody else may have seen to it that the answer is another one than last time.
	same := err == nil && resource == gone || f.missed && errors.Is(err, ErrNotServed)
	if same && f.from.renew(ctx) {
		resource, namespaced, err = f.from.find(ctx, f.kind)
	}
	f.missed = errors.Is(err, ErrNotServed)
	switch {
	case f.missed:
		return "", err
	case err != nil:
		return "", fmt.Errorf("discovery of %s: %w", f.kind, err)
	case f.namespaced && !namespaced:
		return "", fmt.Errorf("%s: %w", f.kind, ErrClusterScoped)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found, f.gone = resource, ""
	return resource, nil
}

// mapped is the directory that a REST mapper is.
type mapped struct {
	meta.RESTMapper
	shared bool // perhaps
}

func (m mapped) find(ctx context.Context, kind schema.GroupVersionKind) (string, bool, error) {
	mapping, err := meta.ToRESTMapperWithContext(m.RESTMapper).RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return "", false, fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	if err != nil {
		return "", false, err
	}
	return mapping.Resource.Resource, mapping.Scope.Name() != meta.RESTScopeNameRoot, nil
}

func (m mapped) renew(ctx context.Context) bool {
	var reset func()
	switch mapper := m.RESTMapper.(type) {
	case meta.ResettableRESTMapperWithContext:
		reset = func() { mapper.ResetWithContext(ctx) }
	case meta.ResettableRESTMapper:
		reset = mapper.Reset
	}
	if reset == nil || m.shared && !resets.due(m.RESTMapper) {
		return false
	}
	reset()
	return true
}

// resetInterval is how long a mapper that may be shared is not reset again: a hundred kinds that
// are not installed must not make everybody else wait for discovery all the time.
const resetInterval = 10 * time.Second

// resets knows when mappers were reset, for as long as that matters.
var resets resetTimes

type resetTimes struct {
	mu   sync.Mutex        // protects last
	last map[any]time.Time // by the mapper
}

// due reports whether a mapper may be reset, and takes it that it is then.
func (r *resetTimes) due(mapper any) bool {
	if !reflect.ValueOf(mapper).Comparable() {
		return true // nobody knows whether it is the same
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
