package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

var (
	// ErrNoKind means that [ForKind] does not know T's kind: it was given neither
	// [WithKind], with a version, nor, by [WithScheme], a scheme in which T is registered once.
	ErrNoKind = errors.New("kind is not known: pass WithKind with a version, or WithScheme with a scheme that has the type")

	// ErrClusterScoped means that the objects of a kind have no namespace, and one was
	// asked for.
	ErrClusterScoped = errors.New("kind has no namespaces: pass an empty one")
)

// ForKind is [ForResource] for whoever knows the kind of T, and not the resource: the server
// says which one it is, when the first request is made. The kind is that of [WithKind], or the
// one under which [WithScheme]'s scheme has T; without either it returns [ErrNoKind]:
//
//	reflector.ForKind[*corev1.Pod](config, "default", reflector.WithScheme(scheme.Scheme))
//
// A kind that the server does not serve yet is no error here. It is an [ErrNotServed] of the
// request that needs it, for which a reflector waits as for everything else. The server is
// asked again after such a failure, and otherwise once for each resource: see [WithRESTMapper].
func ForKind[T Object](config *rest.Config, namespace string, opts ...ResourceOption) (*Resource[T], error) {
	var o resourceOptions
	for _, opt := range opts {
		opt.applyResource(&o)
	}
	if _, err := decode.For[T](); err != nil {
		return nil, fmt.Errorf("client of a kind: %w", err)
	}
	kind, err := kindOf[T](&o)
	if err != nil {
		return nil, err
	}
	// The resource has no name until it is asked for.
	r, err := ForResource[T](config, kind.GroupVersion().WithResource(""), namespace, opts...)
	if err != nil {
		return nil, err
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	mapper := o.mapper
	if isNil(mapper) {
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("discovery of %s: %w", kind, err)
		}
		cached := memory.NewMemCacheClientWithContext(client)
		mapper = restmapper.NewDeferredDiscoveryRESTMapperWithContext(cached)
	}
	r.finder = newFinder(kind, namespace != "", mapped{mapper})
	return r, nil
}

// kindOf returns T's kind by what the options say.
func kindOf[T Object](o *resourceOptions) (schema.GroupVersionKind, error) {
	t := reflect.TypeFor[T]()
	if !o.kind.Empty() {
		if o.kind.Kind == "" || o.kind.Version == "" {
			return schema.GroupVersionKind{}, fmt.Errorf("client of %s, as %q, which lacks a kind or a version: %w", t, o.kind.String(), ErrNoKind)
		}
		return o.kind, nil
	}
	object, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok || o.scheme == nil {
		return schema.GroupVersionKind{}, fmt.Errorf("client of %s: %w", t, ErrNoKind)
	}
	kinds, _, err := o.scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("client of %s: %w: %w", t, ErrNoKind, err)
	}
	if len(kinds) != 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("client of %s, which is registered as %v: %w", t, kinds, ErrNoKind)
	}
	return kinds[0], nil
}

// finder finds the resource of a kind, and remembers it.
type finder struct {
	kind       schema.GroupVersionKind
	namespaced bool // is what is wanted
	from       directory
	turn       chan struct{} // has room for one, who asks the directory

	mu    sync.Mutex // protects found
	found string
}

func newFinder(kind schema.GroupVersionKind, namespaced bool, from directory) *finder {
	return &finder{kind: kind, namespaced: namespaced, from: from, turn: make(chan struct{}, 1)}
}

// directory says which resource a kind is.
type directory interface {
	// find returns the name and whether there are namespaces; the error is an ErrNotServed
	// if there is no such kind.
	find(ctx context.Context, kind schema.GroupVersionKind) (resource string, namespaced bool, err error)
	// forget makes the server be asked again.
	forget(ctx context.Context)
}

// known returns the name of the resource if it was found.
func (f *finder) known() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found
}

// find returns the name of the resource. One at a time asks: client-go's mapper has a lock while
// the server is asked, and whoever waits for that does not hear that ctx ended. Only a mapper
// that several resources have may still make them wait so.
func (f *finder) find(ctx context.Context) (string, error) {
	if found := f.known(); found != "" {
		return found, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("discovery of %s: %w", f.kind, ctx.Err())
	}
	if found := f.known(); found != "" {
		return found, nil
	}
	resource, namespaced, err := f.from.find(ctx, f.kind)
	switch {
	case errors.Is(err, ErrNotServed):
		f.from.forget(ctx)
		return "", err
	case err != nil:
		return "", fmt.Errorf("discovery of %s: %w", f.kind, err)
	case f.namespaced && !namespaced:
		return "", fmt.Errorf("%s: %w", f.kind, ErrClusterScoped)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = resource
	return resource, nil
}

// forget makes the server be asked again.
func (f *finder) forget(ctx context.Context) {
	f.mu.Lock()
	f.found = ""
	f.mu.Unlock()
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
		f.from.forget(ctx)
	case <-ctx.Done():
		// Whoever comes next finds the old name, is told that there is no such resource, and
		// forgets it.
	}
}

// mapped is the directory that a REST mapper is.
type mapped struct{ meta.RESTMapper }

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

func (m mapped) forget(ctx context.Context) {
	switch mapper := m.RESTMapper.(type) {
	case meta.ResettableRESTMapperWithContext:
		mapper.ResetWithContext(ctx)
	case meta.ResettableRESTMapper:
		mapper.Reset()
	}
}
