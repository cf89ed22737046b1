package metadatainformer

import (
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo/internal/resources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
)

// SharedInformerFactory is the factory of client-go.
type SharedInformerFactory = metadatainformer.SharedInformerFactory

// TweakListOptionsFunc edits the options of each list and watch.
type TweakListOptionsFunc = metadatainformer.TweakListOptionsFunc

// SharedInformerOption configures a factory.
type SharedInformerOption func(*resources.Source)

// WithTransform sets a transform of all informers. It must not change the key.
func WithTransform(transform cache.TransformFunc) SharedInformerOption {
	return func(of *resources.Source) { of.Transform = transform }
}

// NewSharedInformerFactory is [NewFilteredSharedInformerFactory] for all namespaces.
func NewSharedInformerFactory(client metadata.Interface, resync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync)
}

// NewFilteredSharedInformerFactory returns a factory of informers of PartialObjectMetadata.
func NewFilteredSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak TweakListOptionsFunc) SharedInformerFactory {
	return resources.New(source(client, namespace, tweak), resync)
}

// NewSharedInformerFactoryWithOptions is [NewSharedInformerFactory] with options.
func NewSharedInformerFactoryWithOptions(client metadata.Interface, resync time.Duration, opts ...SharedInformerOption) SharedInformerFactory {
	of := source(client, metav1.NamespaceAll, nil)
	for _, opt := range opts {
		opt(&of)
	}
	return resources.New(of, resync)
}

// NewFilteredMetadataInformer returns an informer of one resource, which belongs to no factory.
func NewFilteredMetadataInformer(client metadata.Interface, resource schema.GroupVersionResource, namespace string, resync time.Duration, indexers cache.Indexers, tweak TweakListOptionsFunc) informers.GenericInformer {
	return source(client, namespace, tweak).Informer(resource, resync, indexers)
}

func source(client metadata.Interface, namespace string, tweak TweakListOptionsFunc) resources.Source {
	return resources.Source{
		Example: &metav1.PartialObjectMetadata{},
		ListWatch: func(resource schema.GroupVersionResource) cache.ListerWatcher {
			return resources.ListWatch(client.Resource(resource).Namespace, namespace, client, tweak)
		},
		Lister: func(indexer cache.Indexer, resource schema.GroupVersionResource) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, resource))
		},
	}
}
