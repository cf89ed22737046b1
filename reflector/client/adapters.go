package client

import (
	"context"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// ListWatcher is a client without a Get method.
type ListWatcher[L any] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Dynamic adapts a client of client-go's dynamic package to a [reflector.Client]. Use it for
// resources for which the program has no Go type:
//
//	reflector.New(client.Dynamic(client.Resource(gvr).Namespace("default")), objects)
//
// If client is nil, Run returns [reflector.ErrNoClient].
func Dynamic(client dynamic.ResourceInterface) *Adapter[*unstructured.Unstructured, *unstructured.UnstructuredList] {
	if stream.IsNil(client) {
		return nil
	}
	return &Adapter[*unstructured.Unstructured, *unstructured.UnstructuredList]{client, client}
}

// Metadata adapts a client of client-go's metadata package to a [reflector.Client]. It works with
// any resource, but the server sends only the metadata of the objects.
//
//	reflector.New(client.Metadata(client.Resource(gvr).Namespace("default")), objects)
//
// If client is nil, Run returns [reflector.ErrNoClient].
func Metadata(client metadata.ResourceInterface) *Adapter[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList] {
	if stream.IsNil(client) {
		return nil
	}
	return &Adapter[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{client, client}
}

// ListWatch adapts a client without a Get method to a [reflector.Client]. Such a client does not
// determine the type of its objects, so the caller must name T:
//
//	reflector.New(client.ListWatch[*corev1.Pod](client), pods)
//
// If client is nil, Run returns [reflector.ErrNoClient]. If L is not a list of T, Run returns a
// [*reflector.ListTypeError].
func ListWatch[T stream.Object, L any](client ListWatcher[L]) *Adapter[T, L] {
	if stream.IsNil(client) {
		return nil
	}
	return &Adapter[T, L]{client, nil}
}

// getter is the Get of client-go's dynamic and metadata clients.
type getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
}

// Adapter is a client of client-go with the methods of a [reflector.Client]. Create one with [Dynamic],
// [Metadata] or [ListWatch].
type Adapter[T stream.Object, L any] struct {
	of     ListWatcher[L]
	single getter[T] // nil if the client has no Get
}

// Get returns an object, if the client has a Get.
func (a *Adapter[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (object T, err error) {
	if a.single == nil {
		return object, stream.ErrNoGet
	}
	return a.single.Get(ctx, name, opts)
}

// List lists the objects.
func (a *Adapter[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	return a.of.List(ctx, opts)
}

// Watch watches the objects.
func (a *Adapter[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return a.of.Watch(ctx, opts)
}

// GetIn returns an object of a namespace, if the client makes clients of namespaces, as the dynamic and the
// metadata client of a resource do. A wrapper of one may hide in which namespace its Get looks.
func (a *Adapter[T, L]) GetIn(ctx context.Context, namespace, name string) (object T, err error) {
	of := a.single
	if namespace != "" {
		var in any
		switch all := any(of).(type) {
		case dynamic.NamespaceableResourceInterface:
			in = all.Namespace(namespace)
		case metadata.Getter:
			in = all.Namespace(namespace)
		}
		of, _ = in.(getter[T])
	}
	if of == nil {
		return object, stream.ErrNoGet
	}
	return of.Get(ctx, name, metav1.GetOptions{})
}

// KnownNamespace returns the namespace of the adapted client, which is empty for all namespaces, and whether it
// is known. It is known of the clients of client-go and their doubles, and not of a wrapper.
func (a *Adapter[T, L]) KnownNamespace() (namespace string, known bool) {
	return stream.NamespaceOf(a.of)
}

// IsWatchListSemanticsUnSupported returns the answer of the adapted client.
func (a *Adapter[T, L]) IsWatchListSemanticsUnSupported() bool {
	return !stream.CanStream(a.of)
}

// SharesParts returns the answer of the adapted client: see [Resource.SharesParts]. A wrapper that hides that
// method still has the list of a Resource.
func (a *Adapter[T, L]) SharesParts() bool {
	if a == nil {
		return false
	}
	if sharing, says := a.of.(interface{ SharesParts() bool }); says {
		return sharing.SharesParts()
	}
	return reflect.TypeFor[L]() == reflect.TypeFor[*ResourceList[T]]()
}
