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
	return dynamicClient{adapted[*unstructured.UnstructuredList]{client}, client}
}

type dynamicClient struct {
	adapted[*unstructured.UnstructuredList]
	client dynamic.ResourceInterface
}

func (c dynamicClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*unstructured.Unstructured, error) {
	return c.client.Get(ctx, name, opts)
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
	return metadataClient{adapted[*metav1.PartialObjectMetadataList]{client}, client}
}

type metadataClient struct {
	adapted[*metav1.PartialObjectMetadataList]
	client metadata.ResourceInterface
}

func (c metadataClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*metav1.PartialObjectMetadata, error) {
	return c.client.Get(ctx, name, opts)
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
	return listingClient[T, L]{adapted[L]{client}}
}

type listingClient[T source.Object, L any] struct{ adapted[L] }

// Get is never called: see Client.
func (c listingClient[T, L]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, source.ErrNoGet
}

// adapted is the part of an adapter that passes List and Watch on to the client.
type adapted[L any] struct{ ListWatcher[L] }

// IsWatchListSemanticsUnSupported returns the answer of the adapted client.
func (a adapted[L]) IsWatchListSemanticsUnSupported() bool { return !source.CanStream(a.ListWatcher) }
