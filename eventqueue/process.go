package eventqueue

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
)

// Process calls fn for each queue from the given number of goroutines, at least
// one, until ctx ends or the collection is closed; then it waits for the running
// calls and returns. A queue for which fn returned nil is acknowledged, unless
// fn settled it by itself; one for which fn returned an error is put back as
// [Queue.Fail] does, or as [Queue.PutBack] does if the error is that of ctx, which has
// ended. A panic in fn is an error, a [*PanicError]; so is [runtime.Goexit]. To hear of
// errors, pass what [Reporting] makes of fn.
//
// fn gets ctx. It is never called for one key at the same time, and may call
// every method of the collection but [Collection.Drain], which would wait for fn's own
// return.
func (c *Collection[T]) Process(ctx context.Context, workers int, fn func(context.Context, *Queue[T]) error) {
	c.process(ctx, workers, false, fn)
}

// ProcessEach is [Collection.Process] for a handler of single events, called as
// [Queue.Each] does, whose failures report hears of as with [Reporting]. Nobody sees a
// queue, so that their memory is used again. A nil report means that nobody listens.
func (c *Collection[T]) ProcessEach(ctx context.Context, workers int, fn func(context.Context, Event[T]) error, report func(context.Context, *HandlerError)) {
	if report == nil {
		report = func(context.Context, *HandlerError) {}
	}
	c.process(ctx, workers, true, Reporting(func(ctx context.Context, q *Queue[T]) error {
		return q.Each(ctx, func(event Event[T]) error { return fn(ctx, event) })
	}, report))
}

// process is Process. If reuse is true, fn keeps no queue.
func (c *Collection[T]) process(ctx context.Context, workers int, reuse bool, fn func(context.Context, *Queue[T]) error) {
	var running sync.WaitGroup
	var work func()
	work = func() {
		returned := false
		defer func() {
			if !returned {
				// Goexit ended the goroutine, as a test's FailNow does in a
				// handler. Another one takes its place.
				running.Go(work)
			}
		}()
		for q := range c.handOutAll(ctx, reuse) {
			switch err := protect(ctx, q, fn); {
			case err == nil:
			case q.interrupted(ctx, err):
				q.PutBack()
			default:
				q.Fail(err)
			}
		}
		returned = true
	}
	for range max(workers, 1) {
		running.Go(work)
	}
	running.Wait()
}

// protect calls fn for a queue and returns what fn returned, or a [*PanicError] if
// it panicked. If Goexit ends it, the queue has failed.
func protect[T any](ctx context.Context, q *Queue[T], fn func(context.Context, *Queue[T]) error) (err error) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: q.Key(), Value: value, Stack: debug.Stack()}
		} else if !returned {
			q.Fail(&PanicError{Key: q.Key(), Value: ErrAbandoned, Stack: debug.Stack()})
		}
	}()
	err = fn(ctx, q)
	returned = true
	return err
}

// Reporting returns a function for [Collection.Process] that calls fn and tells
// report how it failed, before the queue is put back: by an error, a panic or
// Goexit. It does not tell of a failure that comes from the end of ctx or of the
// collection.
func Reporting[T any](fn func(context.Context, *Queue[T]) error, report func(context.Context, *HandlerError)) func(context.Context, *Queue[T]) error {
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

// resourceVersion returns that of the object of the first event that was not acknowledged.
func (q *Queue[T]) resourceVersion() string {
	first := min(int(q.acknowledged), len(q.events)-1)
	if q.each == gaveUpOne {
		first = int(q.acknowledged) - 1 // the one that it failed on
	}
	object, ok := any(q.events[first].Object).(interface{ GetResourceVersion() string })
	if !ok {
		return ""
	}
	return object.GetResourceVersion()
}

// interrupted reports whether a handler failed because it was told to end, or was not
// called because the collection was closed.
func (q *Queue[T]) interrupted(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
	}
	return errors.Is(err, ErrClosed) && q.of.isClosed()
}
