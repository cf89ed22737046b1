package factory

import (
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// SharedInformerFactory is the factory of client-go.
type SharedInformerFactory = informers.SharedInformerFactory

// GenericInformer is the informer of [SharedInformerFactory.ForResource].
type GenericInformer = informers.GenericInformer

// NewSharedInformerFactory is [NewSharedInformerFactoryWithOptions] without options.
func NewSharedInformerFactory(client kubernetes.Interface, resync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync)
}

// NewFilteredSharedInformerFactory is [NewSharedInformerFactoryWithOptions] with two options.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, resync time.Duration, namespace string, tweak func(*metav1.ListOptions)) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewSharedInformerFactoryWithOptions returns a factory of informers of all built-in kinds.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, opts ...SharedInformerOption) SharedInformerFactory {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return &factory{
		SharedInformerFactory: informers.NewSharedInformerFactoryWithOptions(client, resync, o.base...),
		client:                client,
		options:               o,
		wire:                  newWire(client, o),
	}
}

// factory makes the informers. The embedded factory of client-go keeps and runs them, and uses what the
// caller of InformerFor made as it is: the caller may have kept it.
type factory struct {
	informers.SharedInformerFactory
	client  kubernetes.Interface
	options options
	wire    *wire // nil if the clientset has to send the requests
}

// ForResource asks another factory of client-go, which knows the type of the objects.
func (f *factory) ForResource(resource schema.GroupVersionResource) (GenericInformer, error) {
	other, err := informers.NewSharedInformerFactory(f.client, 0).ForResource(resource)
	if err != nil {
		return nil, err
	}
	parts, ok := partsOf(other.Informer())
	if !ok {
		return f.SharedInformerFactory.ForResource(resource)
	}
	ours := generated{f}.InformerFor(parts.example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		// This one has the namespace, the tweak and the name of the factory.
		theirs, _ := informers.NewSharedInformerFactoryWithOptions(client, resync, f.options.base...).ForResource(resource)
		return theirs.Informer()
	})
	return genericInformer{ours, cache.NewGenericLister(ours.GetIndexer(), resource.GroupResource())}, nil
}

// generated is the factory behind the informers of client-go's groups, which have the namespace and
// the tweak of the factory.
type generated struct{ *factory }

func (f generated) InformerFor(example runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		theirs := make(client, resync)
		if ours := f.wire.informer(theirs); ours != nil {
			return ours
		}
		parts, ok := partsOf(theirs)
		if !ok {
			klog.Background().Info("client-go's informer is used: this library does not know its fields in this version of client-go", "type", fmt.Sprintf("%T", example))
			return theirs
		}
		from := &listwatch.Known{ListerWatcher: parts.from, Namespace: f.options.namespace, Selects: f.options.tweak != nil}
		return clientgo.NewSharedIndexInformerWithOptions(from, parts.example, parts.options(theirs))
	})
}

type genericInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }
func (g genericInformer) Lister() cache.GenericLister         { return g.lister }

// SharedInformerOption configures a factory. The options are those of package informers of client-go.
type SharedInformerOption func(*options)

type options struct {
	namespace string
	tweak     func(*metav1.ListOptions)
	base      []informers.SharedInformerOption
}

func (o *options) add(option informers.SharedInformerOption) { o.base = append(o.base, option) }

// WithNamespace limits the informers to a namespace.
func WithNamespace(namespace string) SharedInformerOption {
	return func(o *options) {
		o.namespace = namespace
		o.add(informers.WithNamespace(namespace))
	}
}

// WithTweakListOptions sets a function that edits the options of each list and watch.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) SharedInformerOption {
	return func(o *options) {
		o.tweak = listwatch.Both(tweak)
		o.add(informers.WithTweakListOptions(o.tweak))
	}
}

// WithTransform sets a transform of all informers. It must not change the key.
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return func(o *options) { o.add(informers.WithTransform(transform)) }
}

// WithCustomResyncConfig sets the resync periods of some types.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) SharedInformerOption {
	return func(o *options) { o.add(informers.WithCustomResyncConfig(periods)) }
}

// WithInformerName sets the name of the informers in metrics.
func WithInformerName(name *cache.InformerName) SharedInformerOption {
	return func(o *options) { o.add(informers.WithInformerName(name)) }
}
