// Program projection keeps the metadata of pods, or two fields of each, instead of whole pods. It
// compares the memory of the three caches.
package main

import (
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

func main() { cluster.Main(demo) }

var resource = corev1.SchemeGroupVersion.WithResource("pods")

// newPods returns an informer that keeps whole pods.
func newPods(config *rest.Config) (*informer.Informer[*corev1.Pod], error) {
	pods, err := client.ForResource[*corev1.Pod](config, resource, "default")
	if err != nil {
		return nil, err
	}
	return informer.New(pods), nil
}

// newMetadata returns an informer of metadata: the server sends no more than that. Their type names the
// kind, so that the metadata of Secrets cannot be mistaken for that of pods.
func newMetadata(config *rest.Config) (*informer.Informer[informer.Metadata[corev1.Pod]], error) {
	all, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return informer.NewMetadata[corev1.Pod](all.Resource(resource).Namespace("default")), nil
}

// scheduled names the fields to decode, beside the metadata. The decoder skips all other fields.
type scheduled struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// place is what is kept.
type place struct{ namespace, pod, node string }

func (p *place) GetNamespace() string { return p.namespace }
func (p *place) GetName() string      { return p.pod }

func placeOf(pod *scheduled) (*place, error) {
	return &place{pod.Namespace, pod.Name, pod.Spec.NodeName}, nil
}

// newPlaces returns an informer that keeps the place of each pod.
func newPlaces(config *rest.Config) (*informer.Informer[*place], error) {
	fewFields, err := client.ForResource[*scheduled](config, resource, "default", client.WithoutManagedFields())
	if err != nil {
		return nil, err
	}
	return informer.NewTransformed(fewFields, placeOf, store.ObjectKey[*place]), nil
}
