package factory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
)

// NewDynamicSharedInformerFactory is [NewFilteredDynamicSharedInformerFactory] for all namespaces.
func NewDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration) dynamicinformer.DynamicSharedInformerFactory {
	return NewFilteredDynamicSharedInformerFactory(client, resync, metav1.NamespaceAll, nil)
}

// NewFilteredDynamicSharedInformerFactory returns a factory of informers of Unstructured objects. The
// dynamic client sends the requests and decodes the objects.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {
	return newResources(&unstructured.Unstructured{}, resync, func(resource schema.GroupVersionResource) cache.ListerWatcher {
		return listWatch(client.Resource(resource).Namespace(namespace), client, tweak)
	}, func(indexer cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
		return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, resource))
	})
}

// NewMetadataSharedInformerFactory is [NewFilteredMetadataSharedInformerFactory] for all namespaces.
func NewMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration) metadatainformer.SharedInformerFactory {
	return NewFilteredMetadataSharedInformerFactory(client, resync, metav1.NamespaceAll, nil)
}

// NewFilteredMetadataSharedInformerFactory returns a factory of informers of PartialObjectMetadata.
// The metadata client sends the requests and decodes the objects.
func NewFilteredMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {
	return newResources(&metav1.PartialObjectMetadata{}, resync, func(resource schema.GroupVersionResource) cache.ListerWatcher {
		return listWatch(client.Resource(resource).Namespace(namespace), client, tweak)
	}, func(indexer cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
		return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, resource))
	})
}

// listWatch returns the ListerWatcher of one resource in a namespace.
func listWatch[L runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, client any, tweak func(*metav1.ListOptions)) cache.ListerWatcher {
	if tweak == nil {
		tweak = func(*metav1.ListOptions) {}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return resource.Watch(ctx, o)
		},
	}, client)
}

// resources is a factory of informers by resource.
type resources struct {
	make func(schema.GroupVersionResource) GenericInformer

	mu        sync.Mutex // protects the fields below it
	informers map[schema.GroupVersionResource]GenericInformer
	started   map[schema.GroupVersionResource]cache.SharedIndexInformer
	shutDown  bool

	running sync.WaitGroup
}

func newResources(example runtime.Object, resync time.Duration, from func(schema.GroupVersionResource) cache.ListerWatcher, lister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister) *resources {
	return &resources{
		informers: map[schema.GroupVersionResource]GenericInformer{}, started: map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		make: func(resource schema.GroupVersionResource) GenericInformer {
			i := clientgo.NewSharedIndexInformerWithOptions(from(resource), example, cache.SharedIndexInformerOptions{
				ResyncPeriod: resync, ObjectDescription: resource.String(),
				Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			})
			return genericInformer{i, lister(i.GetIndexer(), resource)}
		},
	}
}

// ForResource returns the informer of a resource.
func (f *resources) ForResource(resource schema.GroupVersionResource) GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.informers[resource]; !ok {
		f.informers[resource] = f.make(resource)
	}
	return f.informers[resource]
}

// Start starts the informers that do not run yet.
func (f *resources) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext starts the informers that do not run yet. client-go's dynamic factory has it since
// 0.38.
func (f *resources) StartWithContext(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shutDown {
		return
	}
	for resource, generic := range f.informers {
		if f.started[resource] == nil {
			i := generic.Informer()
			f.started[resource] = i
			f.running.Go(func() { i.RunWithContext(ctx) })
		}
	}
}

// WaitForCacheSync waits until the caches of all started informers are filled.
func (f *resources) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	f.mu.Lock()
	started := maps.Clone(f.started)
	f.mu.Unlock()
	synced := make(map[schema.GroupVersionResource]bool, len(started))
	for resource, i := range started {
		synced[resource] = cache.WaitForCacheSync(stop, i.HasSynced)
	}
	return synced
}

// Shutdown waits until all informers have ended. Start does nothing from then on.
func (f *resources) Shutdown() {
	f.mu.Lock()
	f.shutDown = true
	f.mu.Unlock()
	f.running.Wait()
}

// The groups of client-go 0.36. Those of the embedded factory make client-go's informers.

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Apps() apps.Interface {
	return apps.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Batch() batch.Interface {
	return batch.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Certificates() certificates.Interface {
	return certificates.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Coordination() coordination.Interface {
	return coordination.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Core() core.Interface {
	return core.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Discovery() discovery.Interface {
	return discovery.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Events() events.Interface {
	return events.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Extensions() extensions.Interface {
	return extensions.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Networking() networking.Interface {
	return networking.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Node() node.Interface {
	return node.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Policy() policy.Interface {
	return policy.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Rbac() rbac.Interface {
	return rbac.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Resource() resource.Interface {
	return resource.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Storage() storage.Interface {
	return storage.New(generated{f}, f.options.namespace, f.options.tweak)
}

func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(generated{f}, f.options.namespace, f.options.tweak)
}
