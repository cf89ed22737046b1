package queuebench

import (
	"context"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

type ours struct {
	counter
	cache    *store.Cache[*corev1.Pod]
	stop     context.CancelFunc
	handlers sync.WaitGroup
}

var _ subject = (*ours)(nil)

// newOurs returns a cache with handlers as an informer has them: a collection for each, which keeps the latest. It holds the given pods, and the
// handlers know.
func newOurs(handlers int, pods []*corev1.Pod) (*ours, error) {
	ctx, stop := context.WithCancel(context.Background())
	o := &ours{counter: counter{Counter: measure.NewCounter(handlers)}, cache: store.New(store.ObjectKey[*corev1.Pod]), stop: stop}
	for range handlers {
		c := eventqueue.Follow(o.cache, eventqueue.WithCompaction(eventqueue.KeepLatest))
		o.handlers.Go(func() {
			defer c.Close()
			for range c.Events(ctx) {
				o.handled()
			}
		})
	}
	if len(pods) == 0 {
		return o, nil
	}
	o.Expect(len(pods))
	if err := o.cache.Replace(pods, "1"); err != nil {
		return o, err
	}
	return o, o.Wait()
}

func (o *ours) put(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := o.cache.Update(pod); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) close() {
	o.stop()
	o.handlers.Wait()
}
