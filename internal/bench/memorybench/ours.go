package memorybench

import (
	"context"
	"strings"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/decorate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// named is the object that a read returns, in whatever form the store keeps it.
type named interface{ GetName() string }

// ours is a store of this library behind a reflector of T, which reads S.
type ours[T reflector.Object, S named] struct {
	reflector *reflector.KubernetesResourceReflector[T]
	reader    store.Reader[S]
}

// behind returns a store that is filled by a reflector of T.
func behind[T reflector.Object, S named](config *rest.Config, to store.Store[T], reader store.Reader[S], opts ...client.ResourceOption) (contender, error) {
	resource, err := client.ForResource[T](config, corev1.SchemeGroupVersion.WithResource("pods"), "", opts...)
	if err != nil {
		return nil, err
	}
	return &ours[T, S]{reflector.New(resource, to), reader}, nil
}

func newPlain(config *rest.Config) (contender, error) {
	return inCache(config, client.WithoutInterning())
}

func newInterned(config *rest.Config) (contender, error) { return inCache(config) }

func newStripped(config *rest.Config) (contender, error) {
	return inCache(config, client.WithoutManagedFields())
}

func inCache(config *rest.Config, opts ...client.ResourceOption) (contender, error) {
	c := store.New(store.ObjectKey[*corev1.Pod])
	return behind(config, c, c, opts...)
}

func newCompact(config *rest.Config) (contender, error) {
	s := compact.New(store.ObjectKey[*corev1.Pod])
	return behind(config, s, s)
}

// slim names the fields that are decoded, besides the metadata.
type slim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
		PodIP string          `json:"podIP"`
	} `json:"status"`
}

// row is the part of a pod that a program keeps to know the pod's node.
type row struct {
	Namespace, Name, Node, IP string
	Phase                     corev1.PodPhase
}

func (r *row) GetNamespace() string { return r.Namespace }
func (r *row) GetName() string      { return r.Name }

func newProjected(config *rest.Config) (contender, error) {
	c := store.New(store.ObjectKey[*row])
	rows := decorate.Transform(c, store.ObjectKey[*slim], func(s *slim) (*row, error) {
		return &row{s.Namespace, s.Name, s.Spec.NodeName, s.Status.PodIP, s.Status.Phase}, nil
	})
	return behind(config, rows, c, client.WithoutManagedFields())
}

func (o *ours[T, S]) run(ctx context.Context) error { return o.reflector.Run(ctx) }

func (o *ours[T, S]) synced() <-chan struct{} { return o.reflector.Synced() }

func (o *ours[T, S]) len() int { return o.reader.Len() }

func (o *ours[T, S]) keys() (keys []store.Key) {
	for key := range o.reader.All() {
		keys = append(keys, store.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)})
	}
	return keys
}

func (o *ours[T, S]) read(keys []store.Key) (found int) {
	for _, key := range keys {
		if object, ok := o.reader.Get(key); ok && object.GetName() == key.Name {
			found++
		}
	}
	return found
}

func (o *ours[T, S]) walk() (found int) {
	for _, object := range o.reader.All() {
		if object.GetName() != "" {
			found++
		}
	}
	return found
}
