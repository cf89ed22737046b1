// Package shim replaces constructors of client-go, and unexported types that its tests look into.
package shim

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// sharedProcessorRunHook delays the start of client-go's processor, which this library does not have.
var sharedProcessorRunHook atomic.Pointer[func()]

// sharedIndexInformer has the fields that the tests read.
type sharedIndexInformer struct {
	cache.SharedIndexInformer
	startedLock sync.Mutex
	started     bool
	clock       any // is set, and not used
	processor   *sharedProcessor
}

type sharedProcessor struct {
	clock     any
	mu        sync.Mutex
	listeners map[cache.ResourceEventHandlerRegistration]*struct{}
}

func (p *sharedProcessor) getListener(registration cache.ResourceEventHandlerRegistration) *struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listeners[registration]
}

func (s *sharedIndexInformer) added(registration cache.ResourceEventHandlerRegistration, err error) (cache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		s.processor.mu.Lock()
		defer s.processor.mu.Unlock()
		s.processor.listeners[registration] = &struct{}{}
	}
	return registration, err
}

func (s *sharedIndexInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.added(s.SharedIndexInformer.AddEventHandler(handler))
}

func (s *sharedIndexInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.added(s.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period))
}

func (s *sharedIndexInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.added(s.SharedIndexInformer.AddEventHandlerWithOptions(handler, options))
}

func (s *sharedIndexInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	err := s.SharedIndexInformer.RemoveEventHandler(registration)
	if err == nil {
		s.processor.mu.Lock()
		defer s.processor.mu.Unlock()
		delete(s.processor.listeners, registration)
	}
	return err
}

func (s *sharedIndexInformer) Run(stop <-chan struct{}) {
	s.RunWithContext(wait.ContextForChannel(stop))
}

func (s *sharedIndexInformer) RunWithContext(ctx context.Context) {
	s.startedLock.Lock()
	s.started = true
	s.startedLock.Unlock()
	s.SharedIndexInformer.RunWithContext(ctx)
}

func shimNewSharedIndexInformer(client cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return &sharedIndexInformer{
		SharedIndexInformer: clientgo.NewSharedIndexInformer(client, example, resync, indexers),
		processor:           &sharedProcessor{listeners: map[cache.ResourceEventHandlerRegistration]*struct{}{}},
	}
}

func shimNewSharedInformer(client cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return shimNewSharedIndexInformer(client, example, resync, nil)
}

func shimNewTransformingInformer(client cache.ListerWatcher, example runtime.Object, resync time.Duration, handler cache.ResourceEventHandler, transform cache.TransformFunc) (cache.Store, cache.Controller) {
	return clientgo.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: client, ObjectType: example, ResyncPeriod: resync, Handler: handler, Transform: transform})
}

func shimNewInformer(client cache.ListerWatcher, example runtime.Object, resync time.Duration, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return clientgo.NewInformer(client, example, resync, handler)
}

func shimNewStore(key cache.KeyFunc) cache.Store { return shimNewIndexer(key, nil) }

func shimNewIndexer(key cache.KeyFunc, indexers cache.Indexers) cache.Indexer {
	x := clientgo.AsIndexer(store.New(func(object any) (store.Key, error) {
		text, err := key(object)
		if err != nil {
			return store.Key{}, err
		}
		name, err := cache.ParseObjectName(text)
		return store.Key{Namespace: name.Namespace, Name: name.Name}, err
	}))
	if err := x.AddIndexers(indexers); err != nil {
		panic(err)
	}
	return x
}
