package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/kubereflector/kubereflector/store"
)

// Process calls fn for each queue from the given number of goroutines, at least one. When ctx ends
// or the collection is closed, Process waits for the running calls and returns.
//
// If fn returns nil, Process acknowledges the queue, unless fn settled it. If fn returns an error,
// Process calls report, and then [Queue.Fail]. A panic in fn counts as an error, a [*PanicError]; so
// does [runtime.Goexit]. If ctx has ended and the error is the error of ctx, Process calls
// [Queue.Release] instead and reports nothing. [Queue.Hold] postpones the end of a call without an
// error. A nil report ignores the failures. A panic or Goexit in report fails the queue too, and is
// not reported. A [Permanent] error stays permanent.
//
// The function fn gets ctx. Process never calls it concurrently for one key. It may call every
// method of the collection except [Collection.Drain], which would wait for fn's own return.
func (c *Collection[T]) Process(ctx context.Context, workers int, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
	c.process(ctx, workers, newQueues, fn, report)
}

// ProcessEach is [Collection.Process] for a handler of single events. It calls fn as [Queue.Each]
// does. The handler gets no queue, so ProcessEach reuses the memory of queues. A single worker runs
// in the caller's goroutine: if fn calls [runtime.Goexit], another worker continues, and the
// caller's goroutine ends when ctx has ended.
func (c *Collection[T]) ProcessEach(ctx context.Context, workers int, fn func(context.Context, Event[T]) error, report func(context.Context, *HandlerError)) {
	c.process(ctx, workers, oneQueue, func(ctx context.Context, q *Queue[T]) error {
		return q.Each(ctx, func(event Event[T]) error { return fn(ctx, event) })
	}, report)
}

// process calls fn in its workers until ctx ends or the collection is closed.
func (c *Collection[T]) process(ctx context.Context, workers int, in memory, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
	held := holding[T]{queues: map[<-chan struct{}][]*Queue[T]{}}
	var running sync.WaitGroup
	defer running.Wait() // also after Goexit
	var work func()
	work = func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			if value := recover(); value != nil {
				panic(value) // of an observer, or of a method of the user's error
			}
			// Goexit ended the goroutine, as FailNow of a test does in a handler. Start another
			// worker in its place.
			running.Go(work)
		}()
		for q := range c.deliverAll(ctx, in) {
			q.handle(ctx, fn, report)
			if !q.held {
				continue
			}
			c.held.Add(1)
			if held.add(q) {
				running.Go(func() {
					select {
					case <-q.until:
					case <-ctx.Done():
					case <-c.closed:
					}
					for _, q := range slices.Backward(held.take(q.until)) { // Release puts a key in front
						c.held.Add(-1)
						q.Release()
					}
				})
			}
		}
		returned = true
	}
	if in == oneQueue && workers <= 1 {
		work()
		return
	}
	for range max(workers, 1) {
		running.Go(work)
	}
}

// holding has the queues that are held, by what they wait for: all keys of a reconciler may wait for one channel,
// and then share one goroutine.
type holding[T any] struct {
	mu     sync.Mutex
	queues map[<-chan struct{}][]*Queue[T] // guarded by mu
}

// add reports whether the queue is the first one that waits for its channel.
func (h *holding[T]) add(q *Queue[T]) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.queues[q.until]
	h.queues[q.until] = append(all, q)
	return len(all) == 0
}

func (h *holding[T]) take(until <-chan struct{}) []*Queue[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.queues[until]
	delete(h.queues, until)
	return all
}

// handle calls fn. After a failure it reports a [HandlerError] and gives the queue back. After a success,
// the end of the loop's body in runBody acknowledges the queue.
func (q *Queue[T]) handle(ctx context.Context, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
	var err error
	defer func() { // fn may have ended the goroutine
		switch {
		case err == nil:
			q.held = q.until != nil
			return
		case q.interrupted(ctx, err):
			q.Release()
			return
		}
		retry := q.retryOf(err)               // the report names it, so it comes true even if ctx ends meanwhile
		defer func() { q.fail(err, retry) }() // report may end the goroutine, too
		if report == nil {
			return
		}
		into := &err // a panic of report takes the place of the error
		if IsPermanent(err) {
			into = new(error) // but does not make a permanent one retryable
		}
		q.try(into, func() error {
			report(ctx, q.describe(err, retry))
			return err
		})
	}()
	q.try(&err, func() error { return fn(ctx, q) })
}

// Each calls fn for each event, oldest first, and acknowledges the event when fn returns nil. It
// stops at the first error and returns it. Pass that error to Fail, or return it from a handler:
// the failed event then comes again with the later ones. If the error is [Permanent], only the
// later events come again.
//
// Each checks between two events whether ctx has ended or the collection is closed. It then stops
// and returns the cause of ctx, or [ErrClosed]. If a handler returns an error after Each completed
// all events, that error acknowledges the queue, as Fail does.
func (q *Queue[T]) Each(ctx context.Context, fn func(Event[T]) error) error {
	q.each = max(q.each, begun)
	for int(q.acknowledged) < len(q.events) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if q.collection.IsClosed() {
			return ErrClosed
		}
		if err := fn(q.events[q.acknowledged].handOver()); err != nil {
			if IsPermanent(err) {
				q.acknowledged++
				q.each = gaveUpEvent
			}
			return err
		}
		q.acknowledged++
	}
	return nil
}

// progress is the state of the handover of single events of a queue.
type progress uint8

const (
	notBegun progress = iota
	begun
	gaveUpEvent // Each ended with a Permanent error and acknowledged that event
)

// try calls fn and stores its error. A panic of fn is an error, and so is runtime.Goexit, which still
// ends the goroutine.
func (q *Queue[T]) try(err *error, fn func() error) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			*err = &PanicError{Key: q.Key(), Value: value, Stack: debug.Stack()}
		} else if !returned {
			*err = &PanicError{Key: q.Key(), Value: ErrAbandoned, Stack: debug.Stack()}
		}
	}()
	*err = fn()
	returned = true
}

// describe returns a failure for the report.
func (q *Queue[T]) describe(err error, retry retry) *HandlerError {
	failure := &HandlerError{Key: q.Key(), Attempt: q.Attempt(), ResourceVersion: q.resourceVersion(), Err: err}
	if !IsPermanent(err) {
		failure.RetryIn = retry.wait
	}
	return failure
}

// resourceVersion returns the resource version of the object of the first event that was not
// acknowledged.
func (q *Queue[T]) resourceVersion() string {
	first := min(int(q.acknowledged), len(q.events)-1)
	if q.each == gaveUpEvent {
		first = int(q.acknowledged) - 1 // the event that Each failed on
	}
	return versions.Of(q.events[first].Object)
}

// interrupted reports whether a handler failed because its context ended, or because the collection
// was closed before an event of the queue.
func (q *Queue[T]) interrupted(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
	}
	return errors.Is(err, ErrClosed) && q.collection.IsClosed()
}

var (
	// ErrClosed means that the collection is closed: callers can no longer add events to it or take
	// queues from it.
	ErrClosed = errors.New("event-queue collection is closed")

	// ErrReadOnly means that a caller wrote to a collection that follows a cache. Write to the
	// cache instead.
	ErrReadOnly = errors.New("event-queue collection follows a cache and cannot be written to")

	// ErrAbandoned is the failure of a key whose loop body or handler ended by a panic or by
	// runtime.Goexit.
	ErrAbandoned = errors.New("handler ended by a panic or by runtime.Goexit")
)

// PanicError is the failure of a key whose handler or predicate panicked, or whose handler ended
// its goroutine by [runtime.Goexit].
type PanicError struct {
	Key store.Key
	// Value is the value that the handler passed to panic, or [ErrAbandoned]. It is an any because
	// panic takes one.
	Value any
	// Stack is the handler's stack, as runtime/debug.Stack formats it.
	Stack []byte
}

// Error names the key and the value, without the stack.
func (e *PanicError) Error() string {
	if e.Value == ErrAbandoned {
		return fmt.Sprintf("handler ended by runtime.Goexit on %q", e.Key)
	}
	return fmt.Sprintf("panic on %q: %v", e.Key, e.Value)
}

// Unwrap returns Value if it is an error, as after panic(err).
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// HandlerError is a failure of a handler. [Collection.Process], controllers and informers report
// it. The failed events come again unless Err is [Permanent].
type HandlerError struct {
	// Key is the object that the handler failed on.
	Key store.Key
	// Attempt is one more than the number of failures since the object was last
	// acknowledged.
	Attempt int
	// ResourceVersion is the object's resource version. From a queue, it comes from the first event
	// that was not acknowledged. From a reconciler, it comes from the object in the cache. It is
	// empty if there is none.
	ResourceVersion string
	// RetryIn is the back-off before the next attempt, or 0 if Err is [Permanent]. A new event of the
	// object may end it: see queue-E11.
	RetryIn time.Duration
	// Err is the handler's error, or a [*PanicError].
	Err error
}

// Error names the object, the attempt and the cause.
func (e *HandlerError) Error() string {
	if IsPermanent(e.Err) {
		return fmt.Sprintf("handling %q failed for good (attempt %d): %v", e.Key, e.Attempt, e.Err)
	}
	return fmt.Sprintf("handling %q failed (attempt %d): %v", e.Key, e.Attempt, e.Err)
}

// Unwrap returns Err.
func (e *HandlerError) Unwrap() error { return e.Err }

// permanentError marks an error as permanent.
type permanentError struct{ err error }

// Permanent returns an error that wraps err and has its text. It marks a failure that a retry
// cannot repair: the collection reports the failed events and does not retry them. Permanent
// returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether an error is, or wraps, an error of [Permanent]. If err joins several
// errors, each of them must be permanent.
func IsPermanent(err error) bool {
	switch e := err.(type) {
	case *permanentError:
		return true
	case interface{ Unwrap() error }:
		return IsPermanent(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !IsPermanent(one) })
	}
	return false
}

func (e *permanentError) Error() string { return e.err.Error() }

func (e *permanentError) Unwrap() error { return e.err }
