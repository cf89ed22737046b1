package informerbench

import (
	"context"
	"sync"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

type peer struct {
	*server
	*measure.Counter
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ subject = (*peer)(nil)

// listsFirst is a client whose watches do not begin with the current state.
type listsFirst struct{}

func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

func newPeer(handlers int, server *server) (subject, error) {
	ctx, stop := context.WithCancel(context.Background())
	p := &peer{server: server, Counter: measure.NewCounter(handlers), stop: stop}
	pods := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  server.anyList,
		WatchFuncWithContext: server.Watch,
	}, listsFirst{}), &corev1.Pod{}, 0, cache.Indexers{})
	for n := range handlers {
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { p.Handled(n) },
			UpdateFunc: func(any, any) { p.Handled(n) },
			DeleteFunc: func(any) { p.Handled(n) },
		}
		if _, err := pods.AddEventHandler(handler); err != nil {
			return p, err
		}
	}
	p.Expect(len(server.pods))
	p.running.Go(func() { pods.RunWithContext(ctx) })
	return p, p.Wait()
}

func (p *peer) parts() (*server, *measure.Counter) { return p.server, p.Counter }

func (p *peer) close() {
	p.stop()
	p.running.Wait()
}
