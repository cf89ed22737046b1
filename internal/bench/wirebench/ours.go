package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// contender is a way from the bytes of a server to a store and a handler.
type contender struct {
	// run lists and watches until ctx ends, and returns after everything that it started has ended. It
	// calls handled for each object of the first list, and for each change.
	run func(ctx context.Context, handled func()) error
	// version returns the resource version that is held. Without it, no relist is measured.
	version func() string
	// reads is the cache whose reads are measured, or nil.
	reads *runtimeCache
}

// builder makes a contender for a server with one resource.
type builder func(config *rest.Config, r schema.GroupVersionResource) (*contender, error)

var (
	asJSON   = client.WithoutProtobuf()
	unshared = client.WithoutInterning()
)

var contenders = map[string]builder{
	"ours-json":              oursTyped(asJSON),
	"ours-json-unshared":     oursTyped(asJSON, unshared),
	"ours-protobuf":          oursTyped(),
	"ours-protobuf-unshared": oursTyped(unshared),
	"ours-unstructured":      ours[*unstructured.Unstructured](),
	"ours-struct":            ours[*objects.Application](),
	"ours-few-fields":        ours[*fewFields](),

	"observed-page":        observed(observation{page: true}),
	"observed-metrics":     observed(observation{metrics: true}),
	"observed-traces-1%":   observed(observation{every: 100, traces: []otel.Option{otel.WithChosenOnly()}}),
	"observed-traces-100%": observed(observation{every: 1}),

	// Without a queue and a handler: the same work as the floors.
	"store-json":          stored(asJSON),
	"store-json-unshared": stored(asJSON, unshared),
	"store-protobuf":      stored(),
	"floor-json":          floor(apiserver.InJSON, decodeJSON),
	"floor-protobuf":      floor(apiserver.InProtobuf, decodeProtobuf),

	"typed-json":        typedInformer(apiserver.InJSON, clientgos),
	"typed-protobuf":    typedInformer(apiserver.InProtobuf, clientgos),
	"dynamic":           dynamicInformer,
	"factory":           typedInformer(apiserver.InProtobuf, ourFactorys),
	"factory-generated": typedInformer(apiserver.InProtobuf, generated),

	"controller-runtime": controllerRuntime(crcache.New),
	"ours-in-runtime":    controllerRuntime(controllerruntime.NewCache),
}

// oursTyped has the type of the resource.
func oursTyped(opts ...client.ResourceOption) builder {
	builders := map[string]builder{"pods": ours[*corev1.Pod](opts...), "secrets": ours[*corev1.Secret](opts...), "configmaps": ours[*corev1.ConfigMap](opts...)}
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		return builders[r.Resource](config, r)
	}
}

// ours is an informer with a handler.
func ours[T reflector.Object](opts ...client.ResourceOption) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		api, err := client.ForResource[T](config, r, "", opts...)
		if err != nil {
			return nil, err
		}
		return handling(informer.New(api)), nil
	}
}

func handling[T any](i *informer.Informer[T]) *contender {
	return &contender{version: i.Cache().ResourceVersion, run: func(ctx context.Context, handled func()) error {
		i.Handle(informer.HandlerFuncs[T]{
			OnAdd:    func(T, bool) { handled() },
			OnUpdate: func(_, _ T) { handled() },
			OnDelete: func(T, bool) { handled() },
		})
		return i.Run(ctx)
	}}
}

// stored is a reflector and a cache of pods, which calls the handler where it commits.
func stored(opts ...client.ResourceOption) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		api, err := client.ForResource[*corev1.Pod](config, r, "", opts...)
		if err != nil {
			return nil, err
		}
		cache := store.New(store.ObjectKey[*corev1.Pod])
		reflector := reflector.New(api, cache)
		return &contender{run: func(ctx context.Context, handled func()) error {
			defer cache.Follow(follower(handled))()
			return reflector.Run(ctx)
		}}, nil
	}
}

// follower is called for each change.
type follower func()

func (follower) Start(*store.Snapshot[*corev1.Pod]) {}

func (f follower) Commit(commit *store.Commit[*corev1.Pod]) {
	for range commit.Changes {
		f()
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
