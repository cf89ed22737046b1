package reflector

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
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
// asked again after such a failure, or when it does not know the resource any more, and otherwise
// once for each resource: see [WithRESTMapper].
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
	mapper := mapped{o.mapper, true}
	if isNil(o.mapper) {
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
