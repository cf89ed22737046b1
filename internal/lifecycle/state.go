package lifecycle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Status is the state of something that runs. Any goroutine may read it, change it and wait for its
// next change. Create one with [NewStatus].
type Status[S any] struct {
	same    func(a, b *S) bool
	changed Changes
	hook    atomic.Pointer[func()]

	mu    sync.Mutex
	state S // guarded by mu
}

// NewStatus returns a status with its first state. The function same reports whether two states are
// the same for those who wait: it leaves out what changes all the time, such as the last contact.
func NewStatus[S any](first S, same func(a, b *S) bool) *Status[S] {
	return &Status[S]{state: first, same: same}
}

// Get returns the current state.
func (s *Status[S]) Get() S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Set changes the state. The function runs under the lock of the status.
func (s *Status[S]) Set(change func(*S)) {
	s.mu.Lock()
	old := s.state
	change(&s.state)
	same := s.same(&old, &s.state)
	if !same {
		s.changed.Announce() // under mu: a caller that has seen this state waits for the next one
	}
	s.mu.Unlock()
	if hook := s.hook.Load(); hook != nil && !same {
		(*hook)()
	}
}

// OnChange sets a function that Set calls after each change that counts, without a lock. It takes the
// place of a goroutine that waits for Changed.
func (s *Status[S]) OnChange(hook func()) { s.hook.Store(&hook) }

// Changed returns a channel that is closed when the state differs from one that the caller has seen.
func (s *Status[S]) Changed(seen S) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.same(&seen, &s.state) {
		return Closed()
	}
	return s.changed.Next()
}

// Changes announces changes of something else. The zero value is ready to use.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // nil if no caller waits; guarded by mu
}

// Next returns a channel that the next Announce closes. Call Next before you read what may change: a
// change between the two is then not missed.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Announce wakes all callers that wait.
func (c *Changes) Announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Latch is something that happens once, such as the end of a first list. Create one with [NewLatch].
type Latch struct {
	once sync.Once
	done chan struct{}
}

// NewLatch returns a latch that is not set.
func NewLatch() *Latch { return &Latch{done: make(chan struct{})} }

// Set records that it has happened, and reports whether this was the first call.
func (l *Latch) Set() (first bool) {
	l.once.Do(func() { first = true; close(l.done) })
	return first
}

// IsSet reports whether Set was called.
func (l *Latch) IsSet() bool { return IsClosed(l.done) }

// Done returns a channel that Set closes.
func (l *Latch) Done() <-chan struct{} { return l.done }

// Wait waits for Set. If ctx ends before, it returns the cause of ctx and the result of why.
func (l *Latch) Wait(ctx context.Context, why func() error) error {
	if l.IsSet() {
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return errors.Join(why(), context.Cause(ctx))
	}
}

// IsClosed reports whether a channel is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Closed returns a closed channel.
func Closed() <-chan struct{} { return closed }

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
