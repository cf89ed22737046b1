package clientgo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// NewInformerWithOptions is cache.NewInformerWithOptions: an informer with one handler. The
// controller runs it. Its HasSynced means that the handler got the objects of the first list. The
// Store is a cache.Indexer. The option MinWatchTimeout has no effect: a watch lasts five to ten
// minutes. NewInformerWithOptions panics if an indexer has no function.
func NewInformerWithOptions(options cache.InformerOptions) (cache.Store, cache.Controller) {
	return newController(options)
}

// NewInformer is cache.NewInformer: see [NewInformerWithOptions].
func NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: handler})
}

// NewIndexerInformer is cache.NewIndexerInformer: see [NewInformerWithOptions].
func NewIndexerInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, handler cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	return newController(cache.InformerOptions{ListerWatcher: lw, ObjectType: example, ResyncPeriod: resync, Handler: handler, Indexers: indexers})
}

func newController(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	s := NewSharedIndexInformerWithOptions(options.ListerWatcher, options.ObjectType, cache.SharedIndexInformerOptions{
		ResyncPeriod: options.ResyncPeriod, Indexers: options.Indexers,
		Identifier: options.Identifier, InformerMetricsProvider: options.InformerMetricsProvider,
	})
	c := handling{SharedInformer: s, logger: options.Logger, handled: s}
	err := s.SetTransform(options.Transform)
	if err == nil && options.Handler != nil {
		c.handled, err = s.AddEventHandler(options.Handler)
	}
	if err != nil {
		panic(fmt.Sprintf("clientgo: new informer: %v", err)) // not for a new informer
	}
	return s.GetIndexer(), c
}

// handling is the controller of an informer with one handler.
type handling struct {
	cache.SharedInformer
	logger  *klog.Logger // nil for the logger of the context
	handled cache.ResourceEventHandlerRegistration
}

func (c handling) Run(stop <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stop)) }

func (c handling) RunWithContext(ctx context.Context) {
	if c.logger != nil {
		ctx = klog.NewContext(ctx, *c.logger)
	}
	c.SharedInformer.RunWithContext(ctx)
}

func (c handling) HasSynced() bool                     { return c.handled.HasSynced() }
func (c handling) HasSyncedChecker() cache.DoneChecker { return c.handled.HasSyncedChecker() }
