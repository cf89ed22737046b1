package queuebench

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// subject is an informer of pods with handlers that count.
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

// counter counts the calls of all handlers of a subject. Handlers share one decrement each, at
// their last call.
type counter struct {
	left    []calls // by handler
	busy    atomic.Int64
	tooMany atomic.Int64
	reached chan struct{} // gets a token with the last call
	gate    atomic.Pointer[chan struct{}]
}

// calls is how many calls of one handler are left, alone in its cache lines.
type calls struct {
	n atomic.Int64
	_ [120]byte
}

func newCounter(handlers int) *counter {
	return &counter{left: make([]calls, handlers), reached: make(chan struct{}, 1)}
}

func (c *counter) counting() *counter { return c }

// expect begins to count down the calls for a number of pods.
func (c *counter) expect(pods int) {
	c.busy.Store(int64(len(c.left)))
	for i := range c.left {
		c.left[i].n.Store(int64(pods))
	}
	if pods == 0 {
		c.reached <- struct{}{}
	}
}

// stall makes handlers wait until resume is called.
func (c *counter) stall() (resume func()) {
	gate := make(chan struct{})
	c.gate.Store(&gate)
	return func() { close(gate) }
}

// handled is what the n-th handler does.
func (c *counter) handled(n int) {
	switch left := c.left[n].n.Add(-1); {
	case left == 0 && c.busy.Add(-1) == 0:
		c.reached <- struct{}{}
	case left < 0:
		c.tooMany.Add(1)
	}
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
}

// wait waits for the last call. One too many is an error: then something else was measured.
func (c *counter) wait() error {
	<-c.reached
	if n := c.tooMany.Load(); n > 0 {
		return fmt.Errorf("handlers were called %d times too often", n)
	}
	return nil
}
