package informerbench

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// server is a client and its API server in one: one list and one watch, with nothing between.
type server struct {
	pods    []*corev1.Pod
	version string
	events  chan watch.Event
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

// Watch returns a watch with a goroutine between server and reflector, as the one that decodes is in a real client.
func (s *server) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		for {
			select {
			case e := <-s.events:
				select {
				case events <- e:
				case <-w.StopChan():
					return
				}
			case <-w.StopChan():
				return
			}
		}
	}()
	return w, nil
}

// send hands pods to the watch, one by one, as modified.
func (s *server) send(pods []*corev1.Pod) error {
	for _, pod := range pods {
		s.events <- watch.Event{Type: watch.Modified, Object: pod}
	}
	return nil
}
