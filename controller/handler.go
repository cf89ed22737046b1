package controller

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
)

// Handler processes the events of one object. If it returns nil, the queue is acknowledged. If it
// returns an error, the queue is retried, unless the error is [eventqueue.Permanent]. Events that
// [eventqueue.Queue.Each] has acknowledged are not retried. The context ends when the time of
// [WithDrainTimeout] is over, not when the context of Run ends.
type Handler[T any] func(ctx context.Context, queue *eventqueue.Queue[T]) error

// Each returns a handler that calls fn for each event of an object, in order. Each event is
// acknowledged by itself. If fn fails, that event and the later ones are retried, and the earlier
// ones are not. If the error is [eventqueue.Permanent], only the later ones are retried. A nil fn makes a nil
// handler.
func Each[T any](fn func(ctx context.Context, event eventqueue.Event[T]) error) Handler[T] {
	if fn == nil {
		return nil // an error of Run
	}
	return func(ctx context.Context, queue *eventqueue.Queue[T]) error {
		return queue.Each(ctx, func(event eventqueue.Event[T]) error { return fn(ctx, event) })
	}
}
