package informerbench

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// subject is an informer that runs, with handlers that have been told of all pods.
type subject interface {
	// close ends the informer and its handlers, and waits for them.
	close()
	// parts returns where pods go in, and what counts the calls that come out.
	parts() (*server, *counter)
}

// update sends pods and waits until all handlers have been called for each of them.
func update(s subject, pods []*corev1.Pod) error {
	server, c := s.parts()
	c.expect(len(pods))
	server.send(pods)
	return c.wait()
}

// counter counts the calls of all handlers of a subject.
type counter struct {
	handlers int
	left     atomic.Int64
	reached  chan struct{} // gets a token with the last call
}

func newCounter(handlers int) *counter {
	return &counter{handlers: handlers, reached: make(chan struct{}, 1)}
}

// expect begins to count down the calls for a number of pods.
func (c *counter) expect(pods int) { c.left.Store(int64(pods * c.handlers)) }

// handled is what a handler does.
func (c *counter) handled() {
	if c.left.Add(-1) == 0 {
		c.reached <- struct{}{}
	}
}

// wait waits for the last call. One too many is an error: then something else was measured.
func (c *counter) wait() error {
	<-c.reached
	if left := c.left.Load(); left < 0 {
		return fmt.Errorf("handlers were called %d times too often", -left)
	}
	return nil
}
