package measure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Counter counts the calls of handlers. Handlers share one decrement each, at their last call.
type Counter struct {
	// Reached gets the time of the last call that was expected.
	Reached chan time.Time

	left    []calls // by handler
	busy    atomic.Int64
	tooMany atomic.Int64
}

// calls is how many calls of one handler are left, alone in its cache lines.
type calls struct {
	n atomic.Int64
	_ [120]byte
}

// NewCounter makes a counter for so many handlers.
func NewCounter(handlers int) *Counter {
	return &Counter{Reached: make(chan time.Time, 1), left: make([]calls, handlers)}
}

// Expect begins to count down the calls for a number of objects.
func (c *Counter) Expect(objects int) {
	c.busy.Store(int64(len(c.left)))
	for i := range c.left {
		c.left[i].n.Store(int64(objects))
	}
	if objects == 0 {
		c.Reached <- time.Now()
	}
}

// Handled is what the n-th handler does.
func (c *Counter) Handled(n int) {
	switch left := c.left[n].n.Add(-1); {
	case left == 0 && c.busy.Add(-1) == 0:
		c.Reached <- time.Now()
	case left < 0:
		c.tooMany.Add(1)
	}
}

// Wait waits for the last call. A call too many is an error: then the figure counts other work too.
func (c *Counter) Wait() error {
	<-c.Reached
	if n := c.tooMany.Load(); n > 0 {
		return fmt.Errorf("handlers were called %d times too often", n)
	}
	return nil
}

// Gate stops handlers while it is shut. The zero Gate is open.
type Gate struct{ shut atomic.Pointer[chan struct{}] }

// Pass waits until the gate is open.
func (g *Gate) Pass() {
	if shut := g.shut.Load(); shut != nil {
		<-*shut
	}
}

// Shut blocks all callers of Pass until the caller calls the returned function.
func (g *Gate) Shut() (open func()) {
	shut := make(chan struct{})
	g.shut.Store(&shut)
	return sync.OnceFunc(func() {
		g.shut.Store(nil)
		close(shut)
	})
}

// Running is a contender that runs until it is closed.
type Running struct {
	stop  context.CancelFunc
	ended chan error
}

// Start begins to run a contender.
func Start(run func(context.Context) error) *Running {
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- run(ctx) }()
	return r
}

// Wait returns what the channel gets. It returns an error if the contender ends before.
func Wait[T any](r *Running, reached <-chan T) (at T, err error) {
	select {
	case at = <-reached:
		return at, nil
	case err := <-r.ended:
		r.ended <- err
		return at, fmt.Errorf("contender ended too early: %w", err)
	}
}

// Close stops the contender and waits for its end.
func (r *Running) Close() error {
	r.stop()
	return <-r.ended
}
