package resources

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Factory is a factory of informers by resource.
type Factory struct {
	make func(schema.GroupVersionResource) informers.GenericInformer

	mu        sync.Mutex // protects the fields below it
	informers map[schema.GroupVersionResource]informers.GenericInformer
	started   map[schema.GroupVersionResource]cache.SharedIndexInformer
	shutDown  bool

	running sync.WaitGroup
}

// Source is where the informers of a factory get their objects.
type Source struct {
	// Example is an object of the type of all objects.
	Example runtime.Object
	// ListWatch returns the ListerWatcher of a resource.
	ListWatch func(schema.GroupVersionResource) cache.ListerWatcher
	// Lister returns the lister of an informer.
	Lister    func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
	Transform cache.TransformFunc // nil for none
}

// New returns a factory.
func New(of Source, resync time.Duration) *Factory {
	return &Factory{
		informers: map[schema.GroupVersionResource]informers.GenericInformer{}, started: map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		make: func(resource schema.GroupVersionResource) informers.GenericInformer {
			return of.Informer(resource, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		},
	}
}

// Informer returns a new informer of a resource.
func (s Source) Informer(resource schema.GroupVersionResource, resync time.Duration, indexers cache.Indexers) informers.GenericInformer {
	i := clientgo.NewSharedIndexInformerWithOptions(s.ListWatch(resource), s.Example, cache.SharedIndexInformerOptions{
		ResyncPeriod: resync, ObjectDescription: resource.String(), Indexers: indexers,
	})
	_ = i.SetTransform(s.Transform) // fails only after the start
	return generic{i, s.Lister(i.GetIndexer(), resource)}
}

type generic struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }
func (g generic) Lister() cache.GenericLister         { return g.lister }

// ForResource returns the informer of a resource.
func (f *Factory) ForResource(resource schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.informers[resource]; !ok {
		f.informers[resource] = f.make(resource)
	}
	return f.informers[resource]
}

// Start starts the informers that do not run yet.
func (f *Factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext starts the informers that do not run yet. client-go's interface of the dynamic factory
// has it since 0.38.
func (f *Factory) StartWithContext(ctx context.Context) {
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
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
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
func (f *Factory) Shutdown() {
	f.mu.Lock()
	f.shutDown = true
	f.mu.Unlock()
	f.running.Wait()
}

// Resource is a client of a resource in a namespace.
type Resource[T metav1.Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// ListWatch returns the ListerWatcher of one resource in a namespace. in returns the client of any namespace,
// and client is behind it.
func ListWatch[T metav1.Object, L runtime.Object, R Resource[T, L]](in func(namespace string) R, namespace string, client any, tweak func(*metav1.ListOptions)) cache.ListerWatcher {
	resource, selects := in(namespace), tweak != nil
	if tweak = listwatch.Both(tweak); !selects {
		tweak = func(*metav1.ListOptions) {}
	}
	return &listwatch.Known{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				tweak(&o)
				return resource.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				tweak(&o)
				return resource.Watch(ctx, o)
			},
		}, client),
		Namespace: namespace,
		Selects:   selects,
		Get: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			object, err := in(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return object, nil
		},
	}
}
