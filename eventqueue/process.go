package eventqueue

import (
	"context"
	"runtime/debug"
	"sync"
)

// Process calls fn for each queue from the given number of goroutines, at least
// one, until ctx ends or the collection is closed; then it waits for the running
// calls and returns. A queue for which fn returned nil is acknowledged, unless
// fn settled it by itself; one for which fn returned an error is put back as
// [Queue.Fail] does. A panic in fn is an error, a [*PanicError]; so is
// [runtime.Goexit], which is [ErrAbandoned].
//
// fn gets ctx. It is never called for one key at the same time, and may call
// every method of the collection.
func (c *Collection[T]) Process(ctx context.Context, workers int, fn func(context.Context, *Queue[T]) error) {
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
		for q := range c.Queues(ctx) {
			if err := Protect(ctx, q, fn); err != nil {
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

// Protect calls fn for a queue and returns what fn returned, or a [*PanicError] if
// it panicked. Process does so by itself; it is for those who want to see the
// error of a panic before the queue is put back.
func Protect[T any](ctx context.Context, q *Queue[T], fn func(context.Context, *Queue[T]) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: q.key, Value: value, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, q)
}
