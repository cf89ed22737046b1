package controller

import (
	"context"
	"errors"
)

// ErrStopNow is the cause of a context after a hard stop: a [Controller] or a reconciler then
// begins no further call, and the contexts of running calls end at once, with this cause.
var ErrStopNow = errors.New("work must stop now")

// HardStopContext returns a context for the Run of a [Controller] or a reconciler, or of a member that
// runs several of them. It also returns the function hardStop, which ends the context with the
// cause [ErrStopNow]. hardStop also reaches a Run whose context has already ended, and that is
// draining its queue. Use it where all work must end by a given time, such as after the loss of a
// lease: see package leader. Call hardStop also after Run has returned: it releases the resources
// of the context.
func HardStopContext(ctx context.Context) (running context.Context, hardStop func()) {
	stopped, cancel := context.WithCancel(hardStopOf(ctx))
	running, end := context.WithCancelCause(context.WithValue(ctx, hardStopKey{}, stopped))
	return running, func() { cancel(); end(ErrStopNow) }
}

type hardStopKey struct{}

// hardStopOf returns a context that ends at a hard stop, even if ctx has ended before.
func hardStopOf(ctx context.Context) context.Context {
	if stopped, ok := ctx.Value(hardStopKey{}).(context.Context); ok {
		return stopped
	}
	return context.Background()
}

// onHardStop calls a function at a hard stop, until release is called.
func onHardStop(ctx context.Context, fn func()) (release func()) {
	releaseStopped := context.AfterFunc(hardStopOf(ctx), fn)
	releaseEnded := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrStopNow) {
			fn()
		}
	})
	return func() { releaseStopped(); releaseEnded() }
}

// HardStopped returns a channel that is closed at a hard stop. Use it in a member of your own that
// still finishes its work after ctx has ended for another cause. It is never closed if ctx does not
// come from [HardStopContext].
func HardStopped(ctx context.Context) <-chan struct{} { return hardStopOf(ctx).Done() }
