package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector"
	kubeclient "github.com/kubereflector/kubereflector/reflector/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// NewCache returns a cache of controller-runtime whose informers are those of this library. Pass it
// as ctrl.Options.NewCache or cluster.Options.NewCache. It accepts the options of cache.New. An
// error is one of cache.New, or of the config.
//
// If the options have a NewInformer, the cache uses that function and nothing of this package.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	if opts.NewInformer != nil {
		return cache.New(config, opts)
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if opts.HTTPClient == nil {
		var err error
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("HTTP client of the cache: %w", err)
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	k := &kinds{config: config, http: opts.HTTPClient, scheme: opts.Scheme, readers: newReaders(opts)}
	opts.HTTPClient = capturing(opts.HTTPClient)
	opts.NewInformer = k.informer
	c, err := cache.New(config, opts)
	if err != nil {
		return nil, err
	}
	return &readCache{c, k.readers}, nil
}

// kinds makes the informers of a cache.
type kinds struct {
	config  *rest.Config
	http    *http.Client
	scheme  *runtime.Scheme
	readers *readers
}

// informer is a cache.Options.NewInformer. Kinds that the library cannot serve are served as by
// [NewInformer].
func (k *kinds) informer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	i, err := k.decoding(lw, example, resync)
	if errors.Is(err, errNoBookmarks) {
		return newInformer(lw, example, resync, indexers, reflector.WithoutWatchList()) // a watch-list ends with a bookmark
	}
	if err != nil {
		log.Log.WithName("cache").Info("Objects are decoded by controller-runtime", "type", fmt.Sprintf("%T", example), "reason", err.Error())
		return NewInformer(lw, example, resync, indexers)
	}
	i.with(indexers)
	k.readers.add(example, i)
	return i
}

// decoding returns an informer whose objects are decoded by this library.
func (k *kinds) decoding(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration) (*sharedInformer, error) {
	wanted, err := requested(lw)
	if err != nil {
		return nil, err
	}
	kind, err := k.kind(example, wanted.resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	options := []kubeclient.ResourceOption{kubeclient.WithHTTPClient(k.http), kubeclient.WithKind(kind)}
	if k.config.ContentType != "" && k.config.ContentType != runtime.ContentTypeProtobuf {
		options = append(options, kubeclient.WithoutProtobuf())
	}
	resource, err := kubeclient.ForType[client.Object](k.config, wanted.resource, example, options...)
	if err != nil {
		return nil, err
	}
	i := &sharedInformer{copies: true, SharedIndexInformer: clientgo.NewSharedIndexInformer(resource.In(wanted.namespace), clientgo.WithResync(resync),
		clientgo.WithInformer(informer.WithName(wanted.name(example)), informer.WithReflector(
			reflector.WithLabelSelector(wanted.labels), reflector.WithFieldSelector(wanted.fields))))}
	switch example.(type) {
	case runtime.Unstructured:
	case *metav1.PartialObjectMetadata:
		i.prepare = stating(kind)
	default:
		i.prepare = stating(schema.GroupVersionKind{}) // as generated clients leave it
	}
	return i, nil
}

// kind returns the kind of an example in an API group and version. A type of the scheme may have
// kinds in several.
func (k *kinds) kind(example runtime.Object, in schema.GroupVersion) (schema.GroupVersionKind, error) {
	if kind := example.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.GroupVersion() == in {
		return kind, nil
	}
	all, _, err := k.scheme.ObjectKinds(example)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	for _, kind := range all {
		if kind.GroupVersion() == in {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%T has no kind in %s", example, in)
}

// stating returns a function that sets which kind an object states.
func stating(kind schema.GroupVersionKind) func(client.Object) error {
	return func(object client.Object) error {
		object.GetObjectKind().SetGroupVersionKind(kind)
		return nil
	}
}
