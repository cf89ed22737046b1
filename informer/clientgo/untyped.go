package clientgo

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of any kind. It is the T of the informers that [NewSharedIndexInformer]
// makes, so the program compiles one informer for all kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// NewSharedIndexInformer is cache.NewSharedIndexInformer. It is
// [NewSharedIndexInformerWithOptions] with two of the options.
func NewSharedIndexInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewSharedInformer is cache.NewSharedInformer: [NewSharedIndexInformer] without indexers.
func NewSharedInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, example, resync, nil)
}

// NewSharedIndexInformerWithOptions is cache.NewSharedIndexInformerWithOptions. The ListerWatcher
// sends the requests and decodes the objects, so they cost what they cost in client-go. The
// informer brings its cache, its queues and its handling of errors. [NewTyped] costs less: it knows
// the type of the objects.
//
// The cache rejects an object of another type than the example with a [*TypeError]. A nil example
// accepts every type. A nil ListerWatcher is an error of Run. The metrics of the queue and of
// handlers need an InformerMetricsProvider in the options. The one of the store's resource version
// also reaches the provider of cache.SetInformerMetricsProvider. The result is a
// *SharedIndexInformer[Object]. NewSharedIndexInformerWithOptions panics if an indexer has no
// function.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	name := cmp.Or(options.ObjectDescription, listwatch.Name(example))
	return newUntyped(listwatch.Client[Object](lw), &hooks[Object]{prepare: exactly(example)}, name, options)
}

// FromClient is [NewSharedIndexInformerWithOptions] over a client of this module, such as one of
// client.ForType, which decodes the server's responses itself. It names the informer after
// ObjectDescription, or after the resource of such a client. A transform may edit its object: it gets a
// copy, because the objects of such a client share equal parts. As from generated clients, objects of Go
// types do not state their kind.
func FromClient[L any](of reflector.Client[Object, L], options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	name := options.ObjectDescription
	if resource, ok := any(of).(*client.Resource[Object]); ok {
		name = cmp.Or(name, resource.Source().About().Resource)
	}
	return newUntyped(of, &hooks[Object]{prepare: withoutKind}, cmp.Or(name, typeName[Object]()), options)
}

// withoutKind leaves the kind empty, as generated clients do, so that a program finds objects of the cache
// equal to those of its requests.
func withoutKind(object Object) (Object, error) {
	switch object.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
	default:
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return object, nil
}

// newUntyped makes an informer of objects of any kind.
func newUntyped[L any](from reflector.Client[Object, L], h *hooks[Object], name string, options cache.SharedIndexInformerOptions) *SharedIndexInformer[Object] {
	opts := []Option{WithResync(options.ResyncPeriod), WithInformer(informer.WithName(name))}
	measured := newMetrics[Object](options)
	if measured != nil {
		opts = append(opts, WithInformer(informer.WithObserver(measured)))
	}
	s := newInformer(from, h, opts)
	if measured != nil {
		s.informer.Follow(measured)
	}
	if err := s.AddIndexers(options.Indexers); err != nil {
		panic(fmt.Sprintf("clientgo: new informer of %s: %v", name, err))
	}
	return s
}

// exactly returns a function that rejects objects of another Go type than the example. Kinds of one type, such
// as Unstructured, pass: client-go stores any kind of a list, and so do we.
func exactly(example any) func(Object) (Object, error) {
	want := reflect.TypeOf(example)
	if want == nil {
		return nil
	}
	return func(object Object) (Object, error) {
		if got := reflect.TypeOf(object); got != want {
			return nil, &TypeError{Want: want.String(), Got: got.String()}
		}
		return object, nil
	}
}
