package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var unshared = client.WithoutInterning()

func asJSON(opts ...client.ResourceOption) []client.ResourceOption {
	return append(opts, client.WithoutProtobuf())
}

// oursTyped has the type of the data set's resource.
func oursTyped(bare bool, opts ...client.ResourceOption) builder {
	builders := map[string]builder{
		"pods": ours[*corev1.Pod](bare, opts...), "secrets": ours[*corev1.Secret](bare, opts...), "configmaps": ours[*corev1.ConfigMap](bare, opts...),
	}
	return func(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
		return builders[r.Resource](config, r)
	}
}

var (
	oursUnstructured = ours[*unstructured.Unstructured](false)
	oursApplications = ours[*apiserver.Application](false)
	oursFewFields    = ours[*fewFields](false)
)

// ours is this library: an informer with a handler or, if it is bare, a reflector and a cache that
// is followed.
func ours[T reflector.Object](bare bool, opts ...client.ResourceOption) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
		api, err := client.ForResource[T](config, r, "", opts...)
		if err != nil {
			return nil, err
		}
		if !bare {
			return &oursInformer[T]{informer.New(api)}, nil
		}
		cache := store.New(store.ObjectKey[T])
		return &oursStore[T]{cache, reflector.New(api, cache)}, nil
	}
}

type oursInformer[T reflector.Object] struct{ informer *informer.Informer[T] }

func (o *oursInformer[T]) version() string { return o.informer.Cache().ResourceVersion() }

func (o *oursInformer[T]) run(ctx context.Context, handled func()) error {
	o.informer.Handle(informer.HandlerFuncs[T]{
		OnAdd:    func(T, bool) { handled() },
		OnUpdate: func(_, _ T) { handled() },
		OnDelete: func(T, bool) { handled() },
	})
	return o.informer.Run(ctx)
}

type oursStore[T reflector.Object] struct {
	cache     *store.Cache[T]
	reflector *reflector.KubernetesResourceReflector[T]
}

func (o *oursStore[T]) version() string { return o.cache.ResourceVersion() }

func (o *oursStore[T]) run(ctx context.Context, handled func()) error {
	defer o.cache.Follow(follower[T]{handled})()
	return o.reflector.Run(ctx)
}

// follower counts changes where they are committed.
type follower[T any] struct{ handled func() }

func (follower[T]) Start(*store.Snapshot[T]) {}

func (f follower[T]) Commit(commit *store.Commit[T]) {
	for range commit.Changes {
		f.handled()
	}
}

// fewFields is the type of a program that needs six of a pod's fields.
type fewFields struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}
