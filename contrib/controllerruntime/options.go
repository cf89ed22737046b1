package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Options are options of a cache that cache.Options does not have. The zero value has none: its
// NewCache is the function [NewCache].
type Options struct {
	// ByReference has the kinds of which the cache holds only some objects whole: see [Reference].
	// An object in the map is only an example of its kind, as in cache.Options.ByObject. It also
	// stands for unstructured objects of the kind.
	ByReference map[client.Object]Reference
}

// Reference says how a cache holds the objects of one kind by reference. The cache watches the
// metadata of all objects, and holds the objects whole that Owned selects. Get requests any other
// object at its first use.
//
//	controllerruntime.Options{ByReference: map[client.Object]controllerruntime.Reference{
//		&corev1.Secret{}: {Owned: labels.SelectorFromSet(labels.Set{"app": "shop"})},
//	}}.NewCache
type Reference struct {
	// Owned selects the objects that the cache holds whole. The default is none.
	Owned labels.Selector

	// Selectors are further selectors of objects that the cache holds whole. The program may add and
	// remove them while the cache runs. nil means none.
	Selectors *OwnedSelectors

	// MaxObjects is how many requested objects the cache keeps, the most recently used ones. The
	// default, for 0, is 1,000 (ondemand.DefaultMaxObjects). With a negative number it keeps none.
	// If the cache has namespaces for the kind, the limits apply to each of them.
	MaxObjects int

	// MaxBytes is the most memory of the requested objects, in bytes, as [store.AddBudget]
	// estimates it. 0 or less means no limit. A larger object is not kept.
	MaxBytes int64
}

var (
	// ErrNotOwned means that a List asks for objects that the cache holds by reference. Add the
	// labels of [Reference].Owned to the List, list metadata, or list with the API reader.
	ErrNotOwned = errors.New("cache holds only the metadata of these objects: list with the labels of the owned objects, list metadata, or use an API reader")

	// ErrReference means that a kind cannot be cached by reference. NewCache returns it for options
	// that exclude each other. The first read or GetInformer returns it for a kind that the library
	// cannot decode, or without bookmarks.
	ErrReference = errors.New("cannot cache by reference")
)

// NewCache returns a cache of controller-runtime whose informers are those of this library. Pass it
// as ctrl.Options.NewCache or cluster.Options.NewCache, or call it instead of cache.New, whose options it
// accepts. It returns the errors of cache.New, or the error of an HTTP client for the config. Each call makes a
// separate cache.
//
// If the options have a NewInformer, the cache uses that function and nothing of this package.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	return Options{}.NewCache(config, opts)
}

// NewCache is the function [NewCache] with these options. It also returns [ErrReference],
// or the error of the scheme for a kind that the scheme does not know.
func (o Options) NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	references, err := o.references(&opts)
	if err != nil {
		return nil, err
	}
	if opts.NewInformer != nil {
		return cache.New(config, opts)
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("HTTP client of the cache: %w", err)
		}
	}
	k := &kinds{config: config, http: opts.HTTPClient, scheme: opts.Scheme, references: references, readers: newReaders(opts)}
	opts.HTTPClient = restguard.Client(opts.HTTPClient, func(to http.RoundTripper) http.RoundTripper { return capturer{restguard.Transport(to)} })
	opts.NewInformer = k.informer
	made, err := cache.New(config, opts)
	if err != nil {
		return nil, err
	}
	registerSizes()
	reads := &readCache{made, k.readers}
	if len(references) == 0 {
		return reads, nil
	}
	return &referringCache{reads, k}, nil
}

// references returns the references by kind.
func (o Options) references(opts *cache.Options) (map[schema.GroupVersionKind]Reference, error) {
	all := map[schema.GroupVersionKind]Reference{}
	for example, reference := range o.ByReference {
		kind, err := apiutil.GVKForObject(example, opts.Scheme)
		if err != nil {
			return nil, fmt.Errorf("cache %T by reference: %w", example, err)
		}
		_, twice := all[kind]
		switch {
		case opts.NewInformer != nil:
			return nil, fmt.Errorf("%w: %s: the options have a NewInformer", ErrReference, kind)
		case twice:
			return nil, fmt.Errorf("%w: %s: two entries have this kind", ErrReference, kind)
		case reference.Owned != nil && reference.Owned.Empty():
			return nil, fmt.Errorf("%w: %s: Owned selects every object", ErrReference, kind)
		}
		if reference.Owned == nil {
			reference.Owned = labels.Nothing()
		}
		all[kind] = reference
	}
	return all, nil
}
