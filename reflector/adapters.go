package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// ListWatcher is a client that cannot get single objects.
type ListWatcher[L any] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Dynamic makes a [Client] of one of client-go's dynamic client, for resources that
// the program has no type for:
//
//	reflector.New(reflector.Dynamic(client.Resource(gvr).Namespace("default")), objects)
//
// A nil client is reported by Run.
func Dynamic(client dynamic.ResourceInterface) Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
	if isNil(client) {
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

// Metadata makes a [Client] of one of client-go's metadata client: of any resource,
// but only the metadata of its objects, which is all that the server then sends.
//
//	reflector.New(reflector.Metadata(client.Resource(gvr).Namespace("default")), objects)
//
// A nil client is reported by Run.
func Metadata(client metadata.ResourceInterface) Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList] {
	if isNil(client) {
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

// ListWatch makes a [Client] of one that cannot get single objects, and so does not
// say what its objects are: T has to be named.
//
//	reflector.New(reflector.ListWatch[*corev1.Pod](client), pods)
//
// A list type that is none of T is reported by Run, and so is a nil client.
func ListWatch[T Object, L any](client ListWatcher[L]) Client[T, L] {
	if isNil(client) {
		return nil
	}
	return listingClient[T, L]{adapted[L]{client}}
}

type listingClient[T Object, L any] struct{ adapted[L] }

// Get is never called: see Client.
func (c listingClient[T, L]) Get(context.Context, string, metav1.GetOptions) (object T, err error) {
	return object, errNoGet
}

// adapted is the part of an adapter that only passes on.
type adapted[L any] struct{ ListWatcher[L] }

// IsWatchListSemanticsUnSupported says what the adapted client would.
func (a adapted[L]) IsWatchListSemanticsUnSupported() bool { return !canStream(a.ListWatcher) }
