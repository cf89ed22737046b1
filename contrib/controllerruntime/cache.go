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
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// kinds makes the informers of a cache.
type kinds struct {
	config     *rest.Config
	http       *http.Client
	scheme     *runtime.Scheme
	references map[schema.GroupVersionKind]Reference
	readers    *readers
}

// informer is a cache.Options.NewInformer. If the library cannot serve a kind, informer falls back
// to an informer over the ListerWatcher.
func (k *kinds) informer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	t, err := k.target(lw, example, resync)
	if reference, ok := k.reference(t.kind, example); ok {
		return k.referring(t, err, reference, indexers)
	}
	var i *sharedInformer
	if err == nil {
		i, err = k.decoding(t)
	}
	switch {
	case err == nil:
		i.with(indexers)
		k.readers.add(example, i)
	case errors.Is(err, errNoBookmarks):
		i = newInformer(lw, example, resync, indexers, reflector.WithoutWatchList()) // a watch-list ends with a bookmark
	default:
		log.Log.WithName("cache").Info("Objects are decoded by controller-runtime", "type", fmt.Sprintf("%T", example), "reason", err.Error())
		i = newInformer(lw, example, resync, indexers)
	}
	if kind, err := apiutil.GVKForObject(example, k.scheme); err == nil {
		i.series = seriesOf(example, kind)
	}
	return i
}

// target says which objects an informer is for.
type target struct {
	request
	kind    schema.GroupVersionKind
	example runtime.Object
	resync  time.Duration
}

func (k *kinds) target(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration) (t target, err error) {
	t.example, t.resync = example, resync
	if t.request, err = requested(lw); err != nil {
		return t, err
	}
	t.kind, err = k.kind(example, t.resource.GroupVersion())
	return t, err
}

// client returns a client whose objects have the type of the example.
func (k *kinds) client(t target) (*kubeclient.Resource[client.Object], error) {
	options := []kubeclient.ResourceOption{kubeclient.WithHTTPClient(k.http), kubeclient.WithKind(t.kind)}
	if k.config.ContentType != "" && k.config.ContentType != runtime.ContentTypeProtobuf {
		options = append(options, kubeclient.WithoutProtobuf())
	}
	return kubeclient.ForType[client.Object](k.config, t.resource, t.example, options...)
}

// decoding returns an informer whose objects are decoded by this library.
func (k *kinds) decoding(t target) (*sharedInformer, error) {
	from, err := k.client(t)
	if err != nil {
		return nil, err
	}
	return t.informer(from, stating(t.kind)), nil
}

// informer returns an informer of the objects of a client.
func (t target) informer(from *kubeclient.Resource[client.Object], prepare func(client.Object) (client.Object, error)) *sharedInformer {
	return &sharedInformer{copies: true, prepare: prepare, SharedIndexInformer: clientgo.NewTyped(from.In(t.namespace), clientgo.WithResync(t.resync), clientgo.WithShallowTransform(),
		clientgo.WithInformer(informer.WithName(t.name(t.example)), informer.WithReflector(
			reflector.WithLabelSelector(t.labels), reflector.WithFieldSelector(t.fields))))}
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

// stating returns a function that sets which kind an object states. Typed objects state none, as
// generated clients leave it.
func stating(kind schema.GroupVersionKind) func(client.Object) (client.Object, error) {
	return func(object client.Object) (client.Object, error) {
		switch object.(type) {
		case runtime.Unstructured:
		case *metav1.PartialObjectMetadata:
			object.GetObjectKind().SetGroupVersionKind(kind)
		default:
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		return object, nil
	}
}
