package informerbench

import (
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

// subject is a running informer whose handlers were called for all pods.
type subject interface {
	// close ends the informer and its handlers, and waits for them.
	close()
	// parts returns where pods go in, and what counts the calls that come out.
	parts() (*server, *measure.Counter)
}

// update sends pods and waits until all handlers have been called for each of them.
func update(s subject, pods []*corev1.Pod) error {
	server, c := s.parts()
	c.Expect(len(pods))
	server.send(pods)
	return c.Wait()
}
