package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
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
)

// generic makes an informer of a factory of client-go's or of ours.
type generic func(*kubernetes.Clientset, schema.GroupVersionResource) (informers.GenericInformer, error)

func clientgos(c *kubernetes.Clientset, r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return informers.NewSharedInformerFactory(c, 0).ForResource(r)
}

func ourFactorys(c *kubernetes.Clientset, r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return factory.NewSharedInformerFactory(c, 0).ForResource(r)
}

// generated has a clientset that is not client-go's own, which decodes by its generated methods.
func generated(c *kubernetes.Clientset, r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return factory.NewSharedInformerFactory(struct{ kubernetes.Interface }{c}, 0).ForResource(r)
}

// typedInformer has the index by namespace that listers need.
func typedInformer(f apiserver.Format, of generic) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		config.ContentType = string(f)
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		i, err := of(clientset, r)
		if err != nil {
			return nil, err
		}
		return sharedInformer(i.Informer()), nil
	}
}

func dynamicInformer(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return sharedInformer(dynamicinformer.NewFilteredDynamicInformer(client, r, "", 0, byNamespace, nil).Informer()), nil
}

func sharedInformer(i cache.SharedIndexInformer) *contender {
	return &contender{version: i.LastSyncResourceVersion, run: func(ctx context.Context, handled func()) error {
		if _, err := i.AddEventHandler(counting(handled)); err != nil {
			return err
		}
		i.RunWithContext(ctx)
		return nil
	}}
}

func counting(handled func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { handled() },
		UpdateFunc: func(any, any) { handled() },
		DeleteFunc: func(any) { handled() },
	}
}

// controllerRuntime is a cache of controller-runtime with its default content type.
func controllerRuntime(newCache crcache.NewCacheFunc) builder {
	examples := map[string]runtimeCache{
		"pods":                               {example: &corev1.Pod{}, lists: &corev1.PodList{}},
		objects.ApplicationResource.Resource: {example: &objects.Application{}, lists: &objects.ApplicationList{}},
	}
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		c := examples[r.Resource]
		types := runtime.NewScheme()
		if err := scheme.AddToScheme(types); err != nil {
			return nil, err
		}
		group := objects.ApplicationKind.GroupVersion()
		types.AddKnownTypes(group, &objects.Application{}, &objects.ApplicationList{})
		metav1.AddToGroupVersion(types, group)
		kinds, _, err := types.ObjectKinds(c.example)
		if err != nil {
			return nil, err
		}
		mapper := meta.NewDefaultRESTMapper(nil) // the default mapper would ask the server for its resources
		mapper.AddSpecific(kinds[0], r, r, meta.RESTScopeNamespace)
		if c.Cache, err = newCache(config, crcache.Options{Scheme: types, Mapper: mapper}); err != nil {
			return nil, err
		}
		informer, err := c.GetInformer(context.Background(), c.example, crcache.BlockUntilSynced(false))
		return &contender{reads: &c, run: func(ctx context.Context, handled func()) error {
			if _, err := informer.AddEventHandler(counting(handled)); err != nil {
				return err
			}
			return c.Start(ctx)
		}}, err
	}
}
