package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector"
	kubeclient "github.com/kubereflector/kubereflector/reflector/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrListerWatcher means that a ListerWatcher returned neither objects nor an error.
var ErrListerWatcher = errors.New("ListerWatcher returned no list and no error")

// TypeError means that a ListerWatcher returned an object of another type than the informer's
// example, or an object without metadata. The informer rejects the object.
type TypeError struct {
	Want, Got reflect.Type
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("ListerWatcher of an informer of %s returned a %s", e.Want, e.Got)
}

// NewInformer is a cache.Options.NewInformer:
//
//	cache.New(config, cache.Options{NewInformer: controllerruntime.NewInformer})
//
// The ListerWatcher sends the requests and decodes the objects, so they cost what they cost in
// controller-runtime. The informer brings its cache, its queues and its handling of errors. It
// rejects objects of another type than the example with a [*TypeError]. It panics if an indexer has
// no function.
func NewInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return newInformer(lw, example, resync, indexers)
}

func newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers, opts ...reflector.Option) *sharedInformer {
	from := listerWatcher{toolscache.ToListerWatcherWithContext(lw), lw}
	i := &sharedInformer{SharedIndexInformer: clientgo.NewSharedIndexInformer(kubeclient.ListWatch[client.Object](from),
		clientgo.WithResync(resync), clientgo.WithInformer(informer.WithName(nameOf(example)), informer.WithReflector(opts...)))}
	if want := reflect.TypeOf(example); want != nil {
		i.prepare = func(object client.Object) (client.Object, error) {
			if got := reflect.TypeOf(object); got != want {
				return nil, &TypeError{Want: want, Got: got}
			}
			return object, nil
		}
	}
	return i.with(indexers)
}

// nameOf returns a name for logs.
func nameOf(example runtime.Object) string {
	if example == nil {
		return "objects"
	}
	if kind := example.GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		return fmt.Sprintf("%s (%T)", kind.GroupKind(), example)
	}
	return fmt.Sprintf("%T", example)
}

// sharedInformer is an informer with one type for the objects of all kinds, so that all kinds share
// one compiled informer.
type sharedInformer struct {
	*clientgo.SharedIndexInformer[client.Object]
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
		object = object.DeepCopyObject().(client.Object)
	}
	return transform(object)
}

// listerWatcher is a ListerWatcher as a client of objects of any type.
type listerWatcher struct {
	toolscache.ListerWatcherWithContext
	from toolscache.ListerWatcher
}

// objectList is a list of objects of any type.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []client.Object
}

func (l listerWatcher) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(l.from)
}

func (l listerWatcher) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(ctx, opts)
}

func (l listerWatcher) List(ctx context.Context, opts metav1.ListOptions) (*objectList, error) {
	from, err := l.ListWithContext(ctx, opts)
	if err != nil {
		return nil, err
	}
	if from == nil || reflect.ValueOf(from).IsNil() {
		return nil, ErrListerWatcher
	}
	access, err := meta.ListAccessor(from)
	if err != nil {
		return nil, fmt.Errorf("ListerWatcher returned a %T: %w", from, err)
	}
	list := &objectList{ListMeta: metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}}
	// Each object gets memory of its own: else one object would keep a whole page in memory.
	return list, meta.EachListItemWithAlloc(from, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return &TypeError{Want: reflect.TypeFor[client.Object](), Got: reflect.TypeOf(item)}
		}
		list.Items = append(list.Items, object)
		return nil
	})
}
