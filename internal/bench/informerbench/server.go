package informerbench

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// server is a client and its API server in one: one list and one watch, with nothing between.
type server struct {
	pods    []*corev1.Pod
	version string
	events  chan watch.Event
	wire    *wire // nil if objects come decoded
}

func newServer(pods []*corev1.Pod, version string) *server {
	return &server{pods: pods, version: version, events: make(chan watch.Event)}
}

// Get is never called.
func (s *server) Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error) {
	return nil, nil
}

func (s *server) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: s.version}, Items: make([]corev1.Pod, len(s.pods))}
	for i, pod := range s.pods {
		list.Items[i] = *pod
	}
	return list, nil
}

func (s *server) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	w := &conversation{events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(s.events)
	return w, nil
}

// send hands pods to the watch, one by one, as modified.
func (s *server) send(pods []*corev1.Pod) error {
	if s.wire != nil {
		s.wire.send(pods)
		return nil
	}
	for _, pod := range pods {
		s.events <- watch.Event{Type: watch.Modified, Object: pod}
	}
	return nil
}

// conversation is a watch, with a goroutine between server and reflector, as the one that decodes is in a real client.
type conversation struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *conversation) run(from <-chan watch.Event) {
	defer close(w.events)
	for {
		select {
		case e := <-from:
			select {
			case w.events <- e:
			case <-w.stopped:
				return
			}
		case <-w.stopped:
			return
		}
	}
}

func (w *conversation) ResultChan() <-chan watch.Event { return w.events }

func (w *conversation) Stop() { w.once.Do(func() { close(w.stopped) }) }

// anyList is the list for clients that know no types.
func (s *server) anyList(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.List(ctx, opts)
}
