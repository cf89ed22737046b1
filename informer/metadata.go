package informer

import (
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// Metadata is the metadata of an object of kind K, such as corev1.Pod, without the
// object itself. K is only a name: it keeps the metadata of pods and that of nodes from
// being taken for each other, and nothing checks that the client serves it.
type Metadata[K any] struct{ *metav1.PartialObjectMetadata }

// NewMetadata returns an informer of the metadata of one resource, which is all that the
// server then sends. The kind has to be named:
//
//	pods := informer.NewMetadata[corev1.Pod](client.Resource(gvr).Namespace("default"))
//
// For a resource whose kind the program has no type for, use [New] with
// [reflector.Metadata], or name a type of your own.
func NewMetadata[K any](client metadata.ResourceInterface, opts ...Option) *Informer[Metadata[K]] {
	named := func(m *metav1.PartialObjectMetadata) (Metadata[K], error) { return Metadata[K]{m}, nil }
	return NewTransformed(reflector.Metadata(client), named, store.ObjectKey[Metadata[K]], opts...)
}
