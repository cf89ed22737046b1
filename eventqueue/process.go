package eventqueue

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
)

// Process calls fn for each queue from the given number of goroutines, at least one. When ctx ends
// or the collection is closed, Process waits for the running calls and returns.
//
// If fn returns nil, Process acknowledges the queue, unless fn settled it. If fn returns an error,
// Process calls [Queue.Fail]. If ctx has ended and the error is the error of ctx, Process calls
// [Queue.Requeue] instead. A panic in fn counts as an error, a [*PanicError]; so does
// [runtime.Goexit]. To receive the errors, wrap fn with [ReportErrors].
//
// The function fn gets ctx. Process never calls it concurrently for one key. It may call every
// method of the collection except [Collection.Drain], which would wait for fn's own return.
func (c *Collection[T]) Process(ctx context.Context, workers int, fn func(context.Context, *Queue[T]) error) {
	c.process(ctx, workers, false, fn)
}

// ProcessEach is [Collection.Process] for a handler of single events. It calls fn as [Queue.Each]
// does, and reports failures as [ReportErrors] does. A nil report ignores the failures. The handler
// gets no queue, so ProcessEach reuses the memory of queues. A single worker runs in the caller's
// goroutine: if fn calls [runtime.Goexit], another worker continues, and the caller's goroutine ends
// when ctx has ended.
func (c *Collection[T]) ProcessEach(ctx context.Context, workers int, fn func(context.Context, Event[T]) error, report func(context.Context, *HandlerError)) {
	if report == nil {
		report = func(context.Context, *HandlerError) {}
	}
	c.process(ctx, workers, true, ReportErrors(func(ctx context.Context, q *Queue[T]) error {
		return q.Each(ctx, func(event Event[T]) error { return fn(ctx, event) })
	}, report))
}

// process implements Process. If reuse is true, fn keeps no queue, and a single worker runs in the
// caller's goroutine.
func (c *Collection[T]) process(ctx context.Context, workers int, reuse bool, fn func(context.Context, *Queue[T]) error) {
	var running sync.WaitGroup
	defer running.Wait() // also after Goexit
	var work func()
	work = func() {
		exited := false
		defer func() {
			if exited {
				// Goexit ended the goroutine, as FailNow of a test does in a handler. Start another
				// worker in its place.
				running.Go(work)
			}
		}()
		for q := range c.handOutAll(ctx, reuse) {
			switch err := protect(ctx, q, fn, &exited); {
			case err == nil:
			case q.interrupted(ctx, err):
				q.Requeue()
			default:
				q.Fail(err)
			}
		}
	}
	if reuse && workers <= 1 {
		work()
		return
	}
	for range max(workers, 1) {
		running.Go(work)
	}
}

// protect calls fn for a queue and returns what fn returned, or a [*PanicError] if it panicked. If
// Goexit ends it, the queue has failed, and protect sets exited.
func protect[T any](ctx context.Context, q *Queue[T], fn func(context.Context, *Queue[T]) error, exited *bool) (err error) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: q.Key(), Value: value, Stack: debug.Stack()}
		} else if !returned {
			*exited = true
			q.Fail(&PanicError{Key: q.Key(), Value: ErrAbandoned, Stack: debug.Stack()})
		}
	}()
	err = fn(ctx, q)
	returned = true
	return err
}

// ReportErrors returns a function for [Collection.Process]. The function calls fn, and calls report if
// fn fails by an error, a panic or Goexit. It calls report before the queue is put back. It does
// not report a failure that comes from the end of ctx or of the collection.
func ReportErrors[T any](fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) func(context.Context, *Queue[T]) error {
	return func(ctx context.Context, q *Queue[T]) (err error) {
		returned := false
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{Key: q.Key(), Value: value, Stack: debug.Stack()}
			} else if !returned {
				err = &PanicError{Key: q.Key(), Value: ErrAbandoned, Stack: debug.Stack()}
			}
			if err != nil && !q.interrupted(ctx, err) {
				report(ctx, &HandlerError{Key: q.Key(), Attempt: q.Attempt(), ResourceVersion: q.resourceVersion(), Err: err})
			}
		}()
		err = fn(ctx, q)
		returned = true
		return err
	}
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
	return errors.Is(err, ErrClosed) && q.of.isClosed()
}
