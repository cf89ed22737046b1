package eventqueue

import (
	"context"
	"slices"
)

// Drain waits until nothing is ready and nothing is out, while others consume.
// Keys that failed and whose back-off runs are not waited for.
//
// It returns nil if no event is left, and else a [*DrainError] that says what
// is, also when ctx ended first. Stop what fills the collection before; what is
// added meanwhile is waited for as well. A closed collection holds nothing.
//
// A handler or a loop's body must not call it with a context that does not end: what it
// holds itself is out.
func (c *Collection[T]) Drain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining++
	defer func() {
		c.draining--
		c.regulateLocked()
	}()
	c.regulateLocked()
	c.sortInLocked()
	for !c.idleLocked() {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		select {
		case <-idle:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return c.leftLocked(context.Cause(ctx))
		}
	}
	return c.leftLocked(nil)
}

// wakeDrainersLocked lets Drain look again if there is nothing to do.
func (c *Collection[T]) wakeDrainersLocked() {
	if c.idle != nil && c.idleLocked() {
		close(c.idle)
		c.idle = nil
	}
}

func (c *Collection[T]) leftLocked(cause error) error {
	if c.keys.len == 0 || c.isClosed() {
		return nil
	}
	e := &DrainError{Cause: cause, Left: make([]Left, 0, c.keys.len)}
	for l := range c.keys.all() {
		left := Left{Key: l.key, Out: l.out != nil, Err: l.err}
		if l.waiting != nil {
			left.Events = len(l.waiting.events)
		}
		if l.out != nil {
			left.Events += len(l.out.events)
		}
		e.Left = append(e.Left, left)
	}
	e.sort()
	return e
}

// sort orders what is left by key. It is not inlined where somebody has a queue, since it would be
// compiled there once more.
//
//go:noinline
func (e *DrainError) sort() {
	slices.SortFunc(e.Left, func(a, b Left) int { return a.Key.Compare(b.Key) })
}
