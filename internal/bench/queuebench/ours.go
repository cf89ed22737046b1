package queuebench

import (
	"context"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

type ours struct {
	*counter
	feed    byHand
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ subject = (*ours)(nil)

// byHand is an informer's source of objects that the benchmark itself writes.
type byHand struct {
	into   store.Store[*corev1.Pod]
	synced chan struct{}
}

func (f byHand) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (f byHand) State() reflector.State { return reflector.State{Phase: reflector.Watching} }

func (f byHand) Changed(reflector.State) <-chan struct{} { return nil }

func (f byHand) Synced() <-chan struct{} { return f.synced }

// newOurs returns an informer that holds the given pods, and whose handlers were called for them.
func newOurs(handlers int, pods []*corev1.Pod) (*ours, error) {
	ctx, stop := context.WithCancel(context.Background())
	o := &ours{counter: newCounter(handlers), stop: stop}
	i := informer.NewFed(nil, store.ObjectKey[*corev1.Pod], func(target feed.Target[*corev1.Pod]) feed.Group {
		o.feed = byHand{target.Into, make(chan struct{})}
		return feed.New(o.feed)
	})
	for n := range handlers {
		i.Handle(informer.HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { o.handled(n) },
			OnUpdate: func(_, _ *corev1.Pod) { o.handled(n) },
			OnDelete: func(*corev1.Pod, bool) { o.handled(n) },
		})
	}
	o.running.Go(func() { _ = i.Run(ctx) }) // it fails only if a handler does
	o.expect(len(pods))
	if err := o.feed.into.Replace(pods, "1"); err != nil {
		return o, err
	}
	close(o.feed.synced)
	return o, o.wait()
}

func (o *ours) put(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := o.feed.into.Update(pod); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) close() {
	o.stop()
	o.running.Wait()
}
