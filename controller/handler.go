package controller

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
)

// Handler does something about what happened to one object. The queue is
// acknowledged when it returns nil, and comes again when it returns an error, unless
// that is [Permanent]. Events that [eventqueue.Queue.Each] is through with do not come
// again whatever the handler returns. The context ends when the time that
// [WithDrainTimeout] gives is over, not with the one that Run was given.
type Handler[T any] func(ctx context.Context, queue *eventqueue.Queue[T]) error

// Each returns a handler that calls fn for each event of an object, in order. Each
// event is acknowledged by itself: where fn fails, that event comes again with
// the later ones, and the earlier ones do not; if the error is [Permanent], only the
// later ones do. A nil fn makes a nil handler.
func Each[T any](fn func(ctx context.Context, event eventqueue.Event[T]) error) Handler[T] {
	if fn == nil {
		return nil // which Run reports
	}
	return func(ctx context.Context, queue *eventqueue.Queue[T]) error {
		return queue.Each(ctx, func(event eventqueue.Event[T]) error { return fn(ctx, event) })
	}
}

// Permanent returns an error that says and wraps what err does, and that retrying does
// not help: what a handler fails on by it is reported, and does not come again until
// something happens to the object. It returns nil for nil. It is
// [eventqueue.Permanent].
func Permanent(err error) error { return eventqueue.Permanent(err) }
