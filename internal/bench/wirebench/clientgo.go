package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

func typedInformer(f format) builder {
	return func(config *rest.Config, d dataset) (contender, error) {
		config.ContentType = string(f)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		generic, err := informers.NewSharedInformerFactory(clientset, 0).ForResource(d.resource)
		if err != nil {
			return nil, err
		}
		return &sharedInformer{generic.Informer()}, nil
	}
}

// factoryInformer is an informer of our factory. A clientset that is not client-go's own decodes by
// its generated methods.
func factoryInformer(as func(*kubernetes.Clientset) kubernetes.Interface) builder {
	return func(config *rest.Config, d dataset) (contender, error) {
		config.ContentType = string(inProtobuf)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		generic, err := factory.NewSharedInformerFactory(as(clientset), 0).ForResource(d.resource)
		if err != nil {
			return nil, err
		}
		return &sharedInformer{generic.Informer()}, nil
	}
}

func dynamicInformer(config *rest.Config, d dataset) (contender, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &sharedInformer{dynamicinformer.NewFilteredDynamicInformer(client, d.resource, "", 0, byNamespace, nil).Informer()}, nil
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
func controllerRuntime(newCache crcache.NewCacheFunc, only format) builder {
	examples := map[string]runtimeCache{
		"pods": {example: &corev1.Pod{}, lists: &corev1.PodList{}}, Applications.Resource: {example: &Application{}, lists: &ApplicationList{}},
	}
	return func(config *rest.Config, d dataset) (contender, error) {
		config.ContentType = string(only)
		r := examples[d.resource.Resource]
		types := runtime.NewScheme()
		if err := scheme.AddToScheme(types); err != nil {
			return nil, err
		}
		types.AddKnownTypes(Applications.GroupVersion(), &Application{}, &ApplicationList{})
		metav1.AddToGroupVersion(types, Applications.GroupVersion())
		kinds, _, err := types.ObjectKinds(r.example)
		if err != nil {
			return nil, err
		}
		mapper := meta.NewDefaultRESTMapper(nil) // the default mapper would ask the server for its resources
		mapper.AddSpecific(kinds[0], d.resource, d.resource, meta.RESTScopeNamespace)
		if r.cache, err = newCache(config, crcache.Options{Scheme: types, Mapper: mapper}); err != nil {
			return nil, err
		}
		r.informer, err = r.cache.GetInformer(context.Background(), r.example, crcache.BlockUntilSynced(false))
		return &r, err
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
