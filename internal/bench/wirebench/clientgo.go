package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// sharedInformer is an informer of client-go's, with the index by namespace that its listers need.
type sharedInformer struct{ informer cache.SharedIndexInformer }

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

func typedInformer(f apiserver.Format) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
		config.ContentType = string(f)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		generic, err := informers.NewSharedInformerFactory(clientset, 0).ForResource(r)
		if err != nil {
			return nil, err
		}
		return &sharedInformer{generic.Informer()}, nil
	}
}

// factoryInformer is an informer of our factory. A clientset that is not client-go's own decodes by
// its generated methods.
func factoryInformer(as func(*kubernetes.Clientset) kubernetes.Interface) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
		config.ContentType = string(apiserver.InProtobuf)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		generic, err := factory.NewSharedInformerFactory(as(clientset), 0).ForResource(r)
		if err != nil {
			return nil, err
		}
		return &sharedInformer{generic.Informer()}, nil
	}
}

func dynamicInformer(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &sharedInformer{dynamicinformer.NewFilteredDynamicInformer(client, r, "", 0, byNamespace, nil).Informer()}, nil
}

func (s *sharedInformer) version() string { return s.informer.LastSyncResourceVersion() }

func (s *sharedInformer) run(ctx context.Context, handled func()) error {
	if _, err := s.informer.AddEventHandler(counting(handled)); err != nil {
		return err
	}
	s.informer.RunWithContext(ctx)
	return nil
}

func counting(handled func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { handled() },
		UpdateFunc: func(any, any) { handled() },
		DeleteFunc: func(any) { handled() },
	}
}

// runtimeCache is the cache of controller-runtime.
type runtimeCache struct {
	cache    crcache.Cache
	informer crcache.Informer
	example  crclient.Object
	lists    crclient.ObjectList
}

// controllerRuntime is a cache of controller-runtime with its default content type, or with JSON
// only.
func controllerRuntime(newCache crcache.NewCacheFunc, only apiserver.Format) builder {
	examples := map[string]runtimeCache{
		"pods": {example: &corev1.Pod{}, lists: &corev1.PodList{}}, apiserver.Applications.Resource: {example: &apiserver.Application{}, lists: &apiserver.ApplicationList{}},
	}
	return func(config *rest.Config, r schema.GroupVersionResource) (contender, error) {
		config.ContentType = string(only)
		c := examples[r.Resource]
		types := runtime.NewScheme()
		if err := scheme.AddToScheme(types); err != nil {
			return nil, err
		}
		types.AddKnownTypes(apiserver.Applications.GroupVersion(), &apiserver.Application{}, &apiserver.ApplicationList{})
		metav1.AddToGroupVersion(types, apiserver.Applications.GroupVersion())
		kinds, _, err := types.ObjectKinds(c.example)
		if err != nil {
			return nil, err
		}
		mapper := meta.NewDefaultRESTMapper(nil) // the default mapper would ask the server for its resources
		mapper.AddSpecific(kinds[0], r, r, meta.RESTScopeNamespace)
		if c.cache, err = newCache(config, crcache.Options{Scheme: types, Mapper: mapper}); err != nil {
			return nil, err
		}
		c.informer, err = c.cache.GetInformer(context.Background(), c.example, crcache.BlockUntilSynced(false))
		return &c, err
	}
}

// version is not known: relists are not measured.
func (*runtimeCache) version() string { return "" }

func (r *runtimeCache) run(ctx context.Context, handled func()) error {
	if _, err := r.informer.AddEventHandler(counting(handled)); err != nil {
		return err
	}
	return r.cache.Start(ctx)
}
