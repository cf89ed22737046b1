package eventqueue

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/kubereflector/kubereflector/store"
)

// Process calls fn for each queue from the given number of goroutines, at least one. When ctx ends
// or the collection is closed, Process waits for the running calls and returns.
//
// If fn returns nil, Process acknowledges the queue, unless fn settled it. If fn returns an error,
// Process calls report, and then [Queue.Fail]. A panic in fn counts as an error, a [*PanicError]; so
// does [runtime.Goexit]. If ctx has ended and the error is the error of ctx, Process calls
// [Queue.Release] instead and reports nothing. [Queue.Hold] postpones the end of a call without an
// error. A nil report ignores the failures. A panic or Goexit
// in report fails the queue too, and is not reported. A [Permanent] error stays permanent.
//
// The function fn gets ctx. Process never calls it concurrently for one key. It may call every
// method of the collection except [Collection.Drain], which would wait for fn's own return.
func (c *Collection[T]) Process(ctx context.Context, workers int, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
	c.process(ctx, workers, false, fn, report)
}

// ProcessEach is [Collection.Process] for a handler of single events. It calls fn as [Queue.Each]
// does. The handler gets no queue, so ProcessEach reuses the memory of queues. A single worker runs
// in the caller's goroutine: if fn calls [runtime.Goexit], another worker continues, and the
// caller's goroutine ends when ctx has ended.
func (c *Collection[T]) ProcessEach(ctx context.Context, workers int, fn func(context.Context, Event[T]) error, report func(context.Context, *HandlerError)) {
	c.process(ctx, workers, true, func(ctx context.Context, q *Queue[T]) error {
		return q.Each(ctx, func(event Event[T]) error { return fn(ctx, event) })
	}, report)
}

// process implements Process. If reuse is true, fn keeps no queue, and a single worker runs in the
// caller's goroutine.
func (c *Collection[T]) process(ctx context.Context, workers int, reuse bool, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
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
		for q := range c.handOutAll(ctx, reuse) {
			q.process(ctx, fn, report)
			if q.held {
				running.Go(func() { q.waitForHold(ctx) })
			}
		}
		returned = true
	}
	if reuse && workers <= 1 {
		work()
		return
	}
	for range max(workers, 1) {
		running.Go(work)
	}
}

// waitForHold puts the queue back when its hold or ctx has ended, or when the collection is closed.
func (q *Queue[T]) waitForHold(ctx context.Context) {
	select {
	case <-q.until:
	case <-ctx.Done():
	case <-q.of.closed:
	}
	q.Release()
}

// process calls fn, reports its failure and settles the queue.
func (q *Queue[T]) process(ctx context.Context, fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) {
	settle := func(err error) {
		switch {
		case err == nil: // without a hold, the end of the loop's body acknowledges
			q.held = q.until != nil
		case q.interrupted(ctx, err):
			q.Release()
		default:
			q.Fail(err)
		}
	}
	finally(q.Key(), func() error { return fn(ctx, q) }, func(err error) {
		if err == nil || report == nil || q.interrupted(ctx, err) {
			settle(err)
			return
		}
		finally(q.Key(), func() error {
			failure := &HandlerError{Key: q.Key(), Attempt: q.Attempt(), ResourceVersion: q.resourceVersion(), Err: err}
			if !IsPermanent(err) {
				q.retryIn = q.backoffEnd - now()
				if failure.Attempt == 1 || q.retryIn <= 0 {
					q.retryIn = q.of.backoff.delay(failure.Attempt)
				}
				q.retryAfter = retryAfter(err)
				q.retryIn = max(q.retryIn, q.retryAfter)
				failure.RetryIn = q.retryIn
			}
			report(ctx, failure)
			return err
		}, func(other error) {
			if IsPermanent(err) { // report cannot make the failure retryable
				other = err
			}
			settle(other)
		})
	})
}

// finally calls fn and then, with its error, another function. A panic or Goexit of fn is an error.
func finally(key store.Key, fn func() error, then func(error)) {
	var err error
	returned := false
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: key, Value: value, Stack: debug.Stack()}
		} else if !returned {
			err = &PanicError{Key: key, Value: ErrAbandoned, Stack: debug.Stack()}
		}
		then(err)
	}()
	err = fn()
	returned = true
}

// resourceVersion returns the resource version of the object of the first event that was not
// acknowledged.
func (q *Queue[T]) resourceVersion() string {
	first := min(int(q.acknowledged), len(q.events)-1)
	if q.each == gaveUpOne {
		first = int(q.acknowledged) - 1 // the event that Each failed on
	}
	object, ok := any(q.events[first].Object).(interface{ GetResourceVersion() string })
	if !ok {
		return ""
	}
	return object.GetResourceVersion()
}

// interrupted reports whether a handler failed because its context ended, or because the collection
// was closed before the handler was called.
func (q *Queue[T]) interrupted(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
	}
	return errors.Is(err, ErrClosed) && q.of.IsClosed()
}
