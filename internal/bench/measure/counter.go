package measure

import (
	"fmt"
	"sync/atomic"
)

// Counter counts the calls of handlers.
type Counter struct {
	handlers int
	left     atomic.Int64
	reached  chan struct{} // gets a token with the last call
}

// NewCounter makes a counter for so many handlers.
func NewCounter(handlers int) *Counter {
	return &Counter{handlers: handlers, reached: make(chan struct{}, 1)}
}

// Expect begins to count down the calls for a number of objects.
func (c *Counter) Expect(objects int) { c.left.Store(int64(objects * c.handlers)) }

// Handled is what a handler does.
func (c *Counter) Handled() {
	if c.left.Add(-1) == 0 {
		c.reached <- struct{}{}
	}
}

// Wait waits for the last call. A call too many is an error: then the figure counts other work too.
func (c *Counter) Wait() error {
	<-c.reached
	if left := c.left.Load(); left < 0 {
		return fmt.Errorf("handlers were called %d times too often", -left)
	}
	return nil
}
