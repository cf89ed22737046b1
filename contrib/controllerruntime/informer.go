package controllerruntime

import (
	"fmt"
	"reflect"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/reflector"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
