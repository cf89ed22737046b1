package client

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ErrExample means that the example of [ForType] does not fit T or the resource.
var ErrExample = errors.New("example of another type: pass a pointer to a struct that is a T, of the kind of the resource")

// ForType returns the client of a resource in all namespaces, and decodes its objects into the type
// of the example. T is an interface with the methods of metav1.Object, such as metav1.Object itself
// or controller-runtime's client.Object. So one instantiation of caches and informers serves all
// kinds of a program that knows them at run time, such as a factory:
//
//	deployments, err := client.ForType[metav1.Object](config, gvr, &appsv1.Deployment{})
//	cache := store.New(store.ObjectKey[metav1.Object]) // holds *appsv1.Deployment
//
// The example is a pointer to a struct like the T of [For], an Unstructured or a
// PartialObjectMetadata. It may be a nil pointer, since only its type and the kind that it states count. Of a
// PartialObjectMetadata the server sends only the metadata. The objects then state the kind of the
// resource, if the client knows it, and PartialObjectMetadata otherwise.
//
// If resource has no name, the first request finds it by discovery, as with [For]. The kind is then
// that of [WithKind], the one that the example states, or the one of its type.
//
// ForType returns [ErrExample] if the example is not a T, or if its kind or that of [WithKind] has
// another group or version than the resource. It returns the errors of [For] and [ForResource].
func ForType[T source.Object](config *rest.Config, resource schema.GroupVersionResource, example runtime.Object, opts ...ResourceOption) (*Resource[T], error) {
	t, want := reflect.TypeOf(example), reflect.TypeFor[T]()
	if t == nil || !t.AssignableTo(want) {
		return nil, fmt.Errorf("client of %s: example is a %T, want a %s: %w", resource.GroupResource(), example, want, ErrExample)
	}
	o := newResourceOptions(opts)
	if o.kind.Empty() && !source.IsNil(example) {
		o.kind = example.GetObjectKind().GroupVersionKind()
	}
	kind, err := kindOf(t, &o)
	switch {
	case err != nil && (resource.Resource == "" || !o.kind.Empty()):
		return nil, err
	case resource.Resource == "":
		return forKind[T](config, t, kind, o)
	}
	if err == nil && kind.GroupVersion() != resource.GroupVersion() {
		return nil, fmt.Errorf("client of %s: example is a %s of the kind %s, want one of %s: %w", resource.GroupResource(), t, kind, resource.GroupVersion(), ErrExample)
	}
	o.kind = kind
	return connect[T](config, t, resource, "", o)
}
