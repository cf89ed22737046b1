package queuebench

import (
	"fmt"
	"sync"

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
	c.expect(len(pods))
	if err := s.put(pods); err != nil {
		return err
	}
	return c.wait()
}

// counter counts the calls of all handlers of a subject.
type counter struct {
	handlers int

	mu      sync.Mutex
	left    int
	reached chan struct{}
	gate    chan struct{} // handlers wait until it is closed; nil if they do not
}

func (c *counter) counting() *counter { return c }

// expect begins to count down the calls for a number of pods.
func (c *counter) expect(pods int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.reached = pods*c.handlers, make(chan struct{})
}

// stall makes handlers wait until resume is called.
func (c *counter) stall() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gate := make(chan struct{})
	c.gate = gate
	return func() { close(gate) }
}

// handled is what a handler does.
func (c *counter) handled() {
	c.mu.Lock()
	gate := c.gate
	if c.left--; c.left == 0 {
		close(c.reached)
	}
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// wait waits for the last call. One too many is an error: then something else was measured.
func (c *counter) wait() error {
	<-c.reached
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return fmt.Errorf("handlers were called %d times too often", -c.left)
	}
	return nil
}
