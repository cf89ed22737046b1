package informer

import (
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// Metadata is the metadata of an object of kind K, such as corev1.Pod, without the object itself. K
// is only a name: it makes the metadata of pods and of nodes different types. The informer does not
// check that the client serves K.
type Metadata[K any] struct{ *metav1.PartialObjectMetadata }

// NewMetadata returns an informer of the metadata of one resource. The server then sends only
// metadata. The call must name the kind:
//
//	pods := informer.NewMetadata[corev1.Pod](resource.Resource(gvr).Namespace("default"))
//
// For a resource without a Go type for its kind, use [New] with [client.Metadata], or name a
// type of your own.
func NewMetadata[K any](resource metadata.ResourceInterface, opts ...Option) *Informer[Metadata[K]] {
	named := func(m *metav1.PartialObjectMetadata) (Metadata[K], error) { return Metadata[K]{m}, nil }
	return NewTransformed(client.Metadata(resource), named, store.ObjectKey[Metadata[K]], opts...)
}
