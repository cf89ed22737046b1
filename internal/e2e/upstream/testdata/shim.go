// Package shim makes informers of this library from what client-go's constructors take. The tests copy it into the packages that they build.
package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// shimObject is the type of all objects: their own types are not known when this is compiled.
type shimObject interface {
	metav1.Object
	runtime.Object
}

type shimList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []shimObject
}

// shimClient is a ListerWatcher as a client of shimObjects.
type shimClient struct {
	cache.ListerWatcherWithContext
	from cache.ListerWatcher
}

func (c shimClient) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.from)
}

func (c shimClient) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(ctx, options)
}

func (c shimClient) List(ctx context.Context, options metav1.ListOptions) (*shimList, error) {
	from, err := c.ListWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	access, err := meta.ListAccessor(from)
	if err != nil {
		return nil, err
	}
	list := &shimList{ListMeta: metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}}
	return list, meta.EachListItem(from, func(item runtime.Object) error {
		object, ok := item.(shimObject)
		if !ok {
			return fmt.Errorf("%T has no metadata", item)
		}
		list.Items = append(list.Items, object)
		return nil
	})
}

func shimInformer(resource cache.ListerWatcher, _ runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	from := shimClient{cache.ToListerWatcherWithContext(resource), resource}
	i := clientgo.NewSharedIndexInformer(client.ListWatch[shimObject](from), clientgo.WithResync(resync))
	if err := i.AddIndexers(indexers); err != nil {
		panic(err) // the constructors of client-go return no error
	}
	return i
}
