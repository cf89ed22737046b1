package informerbench

import (
	"context"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

type ours struct {
	*server
	*measure.Counter
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ subject = (*ours)(nil)

func newOurs(handlers int, server *server) (subject, error) {
	return openOurs(handlers, server, nil, func(*informer.Informer[*corev1.Pod]) {})
}

// openOurs opens an informer with more options, and hands it over before it runs.
func openOurs(handlers int, server *server, opts []informer.Option, made func(*informer.Informer[*corev1.Pod])) (*ours, error) {
	ctx, stop := context.WithCancel(context.Background())
	o := &ours{server: server, Counter: measure.NewCounter(handlers), stop: stop}
	opts = append(opts, informer.WithReflector(reflector.WithoutWatchList()))
	pods, err := newInformer(server, opts)
	if err != nil {
		return o, err
	}
	made(pods)
	for n := range handlers {
		pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { o.Handled(n) },
			OnUpdate: func(_, _ *corev1.Pod) { o.Handled(n) },
			OnDelete: func(*corev1.Pod, bool) { o.Handled(n) },
		})
	}
	o.Expect(len(server.pods))
	o.running.Go(func() { _ = pods.Run(ctx) }) // which returns nil unless a handler failed
	return o, o.Wait()
}

func newInformer(server *server, opts []informer.Option) (*informer.Informer[*corev1.Pod], error) {
	if server.wire == nil {
		return informer.New(server, opts...), nil
	}
	config := &rest.Config{Host: "http://canned", Transport: server.wire}
	resource, err := client.ForResource[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "", client.WithoutProtobuf())
	return informer.New(resource, opts...), err
}

func (o *ours) parts() (*server, *measure.Counter) { return o.server, o.Counter }

func (o *ours) close() {
	o.stop()
	o.running.Wait()
}
