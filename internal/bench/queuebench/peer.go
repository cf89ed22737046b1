package queuebench

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

type peer struct {
	*counter
	informer cache.SharedIndexInformer
	// listeners is the informer as the handler of what its indexer took.
	listeners cache.ResourceEventHandler
	stop      context.CancelFunc
	running   sync.WaitGroup
}

var _ subject = (*peer)(nil)

// listsFirst is a client whose watches do not begin with the current state.
type listsFirst struct{}

func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// newPeer returns an informer that runs on a server without pods, so that its listeners do. It holds the given pods, and the handlers know.
func newPeer(handlers int, pods []*corev1.Pod) (*peer, error) {
	ctx, stop := context.WithCancel(context.Background())
	p := &peer{counter: newCounter(handlers), stop: stop}
	p.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil
		},
	}, listsFirst{}), &corev1.Pod{}, 0, cache.Indexers{})
	listeners, ok := p.informer.(cache.ResourceEventHandler)
	if !ok {
		stop()
		return nil, errors.New("client-go's shared informer is no handler any more: its own code has to be measured another way")
	}
	p.listeners = listeners
	for n := range handlers {
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { p.handled(n) },
			UpdateFunc: func(any, any) { p.handled(n) },
			DeleteFunc: func(any) { p.handled(n) },
		}
		if _, err := p.informer.AddEventHandler(handler); err != nil {
			stop()
			return nil, err
		}
	}
	p.running.Go(func() { p.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
		return p, errors.New("informer did not sync")
	}
	if len(pods) == 0 {
		return p, nil
	}
	p.expect(len(pods))
	for _, pod := range pods {
		if err := p.informer.GetIndexer().Add(pod); err != nil {
			return p, err
		}
		p.listeners.OnAdd(pod, true)
	}
	return p, p.wait()
}

// put does for each pod what processDeltas in client-go's tools/cache/controller.go does for an update.
func (p *peer) put(pods []*corev1.Pod) error {
	indexer := p.informer.GetIndexer()
	for _, pod := range pods {
		old, exists, err := indexer.Get(pod)
		if err != nil || !exists {
			return errors.Join(err, errors.New("pod to update is not there"))
		}
		if err := indexer.Update(pod); err != nil {
			return err
		}
		p.listeners.OnUpdate(old, pod)
	}
	return nil
}

func (p *peer) close() {
	p.stop()
	p.running.Wait()
}
