package queuebench

import (
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	corev1 "k8s.io/api/core/v1"
)

// subject is a cache of pods with handlers that count.
type subject interface {
	// put stores pods one by one.
	put(pods []*corev1.Pod) error
	// close ends the handlers and waits for them.
	close()
	counting() *counter
}

// update stores pods one by one and waits until all handlers have been called for each of them.
func update(s subject, pods []*corev1.Pod) error {
	c := s.counting()
	c.Expect(len(pods))
	if err := s.put(pods); err != nil {
		return err
	}
	return c.Wait()
}

// counter counts the calls of all handlers of a subject, and can stall them.
type counter struct {
	*measure.Counter
	gate atomic.Pointer[chan struct{}] // handlers wait until it is closed; nil if they do not
}

func (c *counter) counting() *counter { return c }

// stall makes handlers wait until resume is called.
func (c *counter) stall() (resume func()) {
	gate := make(chan struct{})
	c.gate.Store(&gate)
	return func() { close(gate) }
}

// handled is what a handler does.
func (c *counter) handled() {
	c.Handled()
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
}
