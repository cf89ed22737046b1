package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/deepcopy"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/reflector"
	kubeclient "github.com/kubereflector/kubereflector/reflector/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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
		var from *kubeclient.Resource[client.Object]
		if from, err = k.client(t); err == nil {
			i = t.informer(from, stating(t.kind))
		}
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
	accepted := cmp.Or(k.config.AcceptContentTypes, k.config.ContentType) // in this order, as in client-go
	if accepted != "" && !strings.Contains(accepted, runtime.ContentTypeProtobuf) {
		options = append(options, kubeclient.WithoutProtobuf())
	}
	return kubeclient.ForType[client.Object](k.config, t.resource, t.example, options...)
}

// informer returns an informer whose objects are decoded by this library.
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

// newInformer returns an informer whose objects are decoded by controller-runtime, for a kind that
// the library cannot serve. It rejects objects of another type than the example.
func newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers, opts ...reflector.Option) *sharedInformer {
	i := &sharedInformer{SharedIndexInformer: clientgo.NewTyped(listwatch.Client[client.Object](lw),
		clientgo.WithResync(resync), clientgo.WithInformer(informer.WithName(listwatch.Name(example)), informer.WithReflector(opts...)))}
	if want := reflect.TypeOf(example); want != nil {
		i.prepare = func(object client.Object) (client.Object, error) {
			if got := reflect.TypeOf(object); got != want {
				return nil, &clientgo.TypeError{Want: want.String(), Got: got.String()}
			}
			return object, nil
		}
	}
	return i.with(indexers)
}

// sharedInformer is an informer with one type for the objects of all kinds, so that all kinds share
// one compiled informer.
type sharedInformer struct {
	*clientgo.SharedIndexInformer[client.Object]
	oneRun
	prepare func(client.Object) (client.Object, error) // before the transform; may be nil
	copies  bool                                       // objects share parts: a transform needs a copy
	series  series                                     // of its metrics; empty for an informer without them
}

func (i *sharedInformer) with(indexers toolscache.Indexers) *sharedInformer {
	err := i.SetTransform(nil)
	if err == nil {
		err = i.AddIndexers(indexers)
	}
	if err != nil {
		panic(fmt.Sprintf("controllerruntime: new informer: %v", err))
	}
	return i
}

// SetTransform sets the function that runs for each object before the cache stores it.
func (i *sharedInformer) SetTransform(transform toolscache.TransformFunc) error {
	if i.prepare == nil && (transform == nil || !i.copies) {
		return i.SharedIndexInformer.SetTransform(transform)
	}
	return i.SharedIndexInformer.SetTransform(func(in any) (any, error) {
		return finished(in.(client.Object), i.prepare, transform, i.copies)
	})
}

// finished returns an object as the cache stores it.
func finished(object client.Object, prepare func(client.Object) (client.Object, error), transform toolscache.TransformFunc, copied bool) (any, error) {
	if prepare != nil {
		var err error
		if object, err = prepare(object); err != nil {
			return nil, err
		}
	}
	if transform == nil {
		return object, nil
	}
	if copied {
		return deepcopy.Transformed(object, transform)
	}
	return transform(object)
}

// A cache of controller-runtime calls cache.Options.NewInformer without the namespace and the
// selectors that its options have for the kind: only the ListerWatcher knows them. So the package
// lets the ListerWatcher make a request, looks at the URL, and never sends it.

// request is a watch that controller-runtime would request.
type request struct {
	resource  schema.GroupVersionResource
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// name returns a name for logs. A cache may have several informers of a resource: for namespaces,
// and for typed objects, unstructured ones and metadata.
func (r request) name(example runtime.Object) string {
	name := r.resource.GroupResource().String()
	if r.namespace != "" {
		name += " in " + r.namespace
	}
	return fmt.Sprintf("%s (%T)", name, example)
}

// captureKey is the key of a context whose requests are captured. The value is a *url.URL, which the
// request sets.
type captureKey struct{}

var (
	errNotCaptured = errors.New("its ListerWatcher sent no HTTP request")
	errNoBookmarks = errors.New("its options turn bookmarks off")
)

// capturer captures the requests with a captureKey, and sends all others.
type capturer struct{ http.RoundTripper }

func (c capturer) RoundTrip(r *http.Request) (*http.Response, error) {
	to, ok := r.Context().Value(captureKey{}).(*url.URL)
	if !ok {
		return c.RoundTripper.RoundTrip(r)
	}
	*to = *r.URL
	// An empty watch is a success for client-go's metrics, and ends at once.
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}, nil
}

// WrappedRoundTripper lets client-go find the transport below, for example to close its connections.
func (c capturer) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// requested returns what a ListerWatcher over a capturing client requests.
func requested(lw toolscache.ListerWatcher) (request, error) {
	var target url.URL
	w, err := toolscache.ToListerWatcherWithContext(lw).WatchWithContext(context.WithValue(context.Background(), captureKey{}, &target), metav1.ListOptions{})
	if w != nil {
		w.Stop()
	}
	switch {
	case target.Path == "" && err != nil:
		return request{}, fmt.Errorf("%w: %w", errNotCaptured, err)
	case target.Path == "":
		return request{}, errNotCaptured
	}
	r, err := parse(target.Path)
	if err != nil {
		return request{}, err
	}
	query := target.Query()
	if query.Get("allowWatchBookmarks") != "true" {
		return request{}, errNoBookmarks
	}
	if r.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return request{}, fmt.Errorf("label selector of its watch: %w", err)
	}
	if r.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return request{}, fmt.Errorf("field selector of its watch: %w", err)
	}
	return r, nil
}

// parse returns resource and namespace of a path that ends with api/VERSION/RESOURCE or
// apis/GROUP/VERSION/RESOURCE, with namespaces/NAMESPACE before RESOURCE if there is one.
func parse(path string) (r request, err error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	last := len(parts) - 1
	r.resource.Resource = parts[last]
	head := parts[:last]
	if last >= 2 && parts[last-2] == "namespaces" {
		r.namespace, head = parts[last-1], parts[:last-2]
	}
	switch n := len(head); {
	case n >= 2 && head[n-2] == "api":
		r.resource.Version = head[n-1]
	case n >= 3 && head[n-3] == "apis":
		r.resource.Group, r.resource.Version = head[n-2], head[n-1]
	default:
		return request{}, fmt.Errorf("path of its watch is %q, want one of a resource", path)
	}
	return r, nil
}
