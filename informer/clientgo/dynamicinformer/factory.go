package dynamicinformer

import (
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo/internal/resources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// DynamicSharedInformerFactory is the factory of client-go.
type DynamicSharedInformerFactory = dynamicinformer.DynamicSharedInformerFactory

// TweakListOptionsFunc edits the options of each list and watch.
type TweakListOptionsFunc = dynamicinformer.TweakListOptionsFunc

// NewDynamicSharedInformerFactory is [NewFilteredDynamicSharedInformerFactory] for all namespaces.
func NewDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration) DynamicSharedInformerFactory {
	return NewFilteredDynamicSharedInformerFactory(client, resync, metav1.NamespaceAll, nil)
}

// NewFilteredDynamicSharedInformerFactory returns a factory of informers of Unstructured objects.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak TweakListOptionsFunc) DynamicSharedInformerFactory {
	return resources.New(source(client, namespace, tweak), resync)
}

// NewFilteredDynamicInformer returns an informer of one resource, which belongs to no factory.
func NewFilteredDynamicInformer(client dynamic.Interface, resource schema.GroupVersionResource, namespace string, resync time.Duration, indexers cache.Indexers, tweak TweakListOptionsFunc) informers.GenericInformer {
	return source(client, namespace, tweak).Informer(resource, resync, indexers)
}

func source(client dynamic.Interface, namespace string, tweak TweakListOptionsFunc) resources.Source {
	return resources.Source{
		Example: &unstructured.Unstructured{},
		ListWatch: func(resource schema.GroupVersionResource) cache.ListerWatcher {
			return resources.ListWatch(client.Resource(resource).Namespace, namespace, client, tweak)
		},
		Lister: func(indexer cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, resource))
		},
	}
}
