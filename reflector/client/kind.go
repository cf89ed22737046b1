package client

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

var (
	// ErrNoKind means that [ForKind] does not know T's kind. The options have neither [WithKind]
	// with a version nor [WithScheme] with a scheme in which T is registered exactly once.
	ErrNoKind = errors.New("kind is not known: pass WithKind with a version, or WithScheme with a scheme that has the type")

	// ErrClusterScoped means that the caller set a namespace for a kind whose objects have none.
	ErrClusterScoped = errors.New("kind has no namespaces: pass an empty one")
)

// ForKind is [ForResource] for callers that know the kind of T but not its resource. The first
// request asks the server for the resource. The kind comes from [WithKind], or from T's
// registration in the scheme of [WithScheme]. Without either, ForKind returns [ErrNoKind]:
//
//	client.ForKind[*corev1.Pod](config, "default", client.WithScheme(scheme.Scheme))
//
// If the server does not serve the kind yet, ForKind returns no error. The request that needs the
// kind fails with [reflector.ErrNotServed], and the reflector retries it as usual. The Resource
// asks the server once. It asks again after such a failure, or when the server no longer knows the
// resource: see [WithRESTMapper].
func ForKind[T source.Object](config *rest.Config, namespace string, opts ...ResourceOption) (*Resource[T], error) {
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
	// The first request finds the name of the resource.
	r, err := ForResource[T](config, kind.GroupVersion().WithResource(""), namespace, opts...)
	if err != nil {
		return nil, err
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	mapper := mapped{o.mapper, true}
	if source.IsNil(o.mapper) {
		client, err := discovery.NewDiscoveryClientForConfig(restguard.Config(config))
		if err != nil {
			return nil, fmt.Errorf("discovery of %s: %w", kind, err)
		}
		cached := memory.NewMemCacheClientWithContext(client)
		mapper = mapped{restmapper.NewDeferredDiscoveryRESTMapperWithContext(cached), false}
	}
	r.expected.given = kind.Kind
	r.finder = newFinder(kind, namespace != "", mapper)
	return r, nil
}

// kindOf returns T's kind according to the options.
func kindOf[T source.Object](o *resourceOptions) (schema.GroupVersionKind, error) {
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
