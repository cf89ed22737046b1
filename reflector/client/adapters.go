package client

import (
	"context"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
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
func Dynamic(client dynamic.ResourceInterface) source.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
	if source.IsNil(client) {
		return nil
	}
	return adapted[*unstructured.Unstructured, *unstructured.UnstructuredList]{client, client}
}

// Metadata adapts a client of client-go's metadata package to a [reflector.Client]. It works with
// any resource, but the server sends only the metadata of the objects.
//
//	reflector.New(client.Metadata(client.Resource(gvr).Namespace("default")), objects)
//
// If client is nil, Run returns [reflector.ErrNoClient].
func Metadata(client metadata.ResourceInterface) source.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList] {
	if source.IsNil(client) {
		return nil
	}
	return adapted[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{client, client}
}

// ListWatch adapts a client without a Get method to a [reflector.Client]. Such a client does not
// determine the type of its objects, so the caller must name T:
//
//	reflector.New(client.ListWatch[*corev1.Pod](client), pods)
//
// If client is nil, Run returns [reflector.ErrNoClient]. If L is not a list of T, Run returns a
// [*reflector.ListTypeError].
func ListWatch[T source.Object, L any](client ListWatcher[L]) source.Client[T, L] {
	if source.IsNil(client) {
		return nil
	}
	return adapted[T, L]{client, nil}
}

// getter is the Get of client-go's dynamic and metadata clients.
type getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
}

// adapted is a client of client-go with the methods of a [reflector.Client].
type adapted[T source.Object, L any] struct {
	ListWatcher[L]
	of getter[T] // nil if the client has no Get
}

func (a adapted[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (object T, err error) {
	if a.of == nil {
		return object, source.ErrNoGet
	}
	return a.of.Get(ctx, name, opts)
}

// GetIn implements [source.GetterIn], if the client makes clients of namespaces, as the dynamic and the
// metadata client of a resource do. A wrapper of one may hide in which namespace its Get looks.
func (a adapted[T, L]) GetIn(ctx context.Context, namespace, name string) (object T, err error) {
	of := a.of
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
		return object, source.ErrNoGet
	}
	return of.Get(ctx, name, metav1.GetOptions{})
}

// IsWatchListSemanticsUnSupported returns the answer of the adapted client.
func (a adapted[T, L]) IsWatchListSemanticsUnSupported() bool {
	return !source.CanStream(a.ListWatcher)
}
