package lifecycle

import (
	"context"
	"errors"
)

// ErrStopNow is the cause of a context after a hard stop. Package controller exports it, and says what it means.
var ErrStopNow = errors.New("work must stop now")

type hardStopKey struct{}

// HardStopContext is that of package controller.
func HardStopContext(ctx context.Context) (running context.Context, hardStop func()) {
	stopped, cancel := context.WithCancel(hardStopOf(ctx))
	running, end := context.WithCancelCause(context.WithValue(ctx, hardStopKey{}, stopped))
	return running, func() { cancel(); end(ErrStopNow) }
}

// hardStopOf returns a context that ends at a hard stop, even if ctx has ended before.
func hardStopOf(ctx context.Context) context.Context {
	if stopped, ok := ctx.Value(hardStopKey{}).(context.Context); ok {
		return stopped
	}
	return context.Background()
}

// HardStopped returns a channel that is closed at a hard stop.
func HardStopped(ctx context.Context) <-chan struct{} { return hardStopOf(ctx).Done() }

// WorkContext returns a context for work that may finish after ctx has ended, but not after a hard stop: it then
// ends with the cause [ErrStopNow]. After a hard stop it has ended from the start, so no work begins. stop ends it.
func WorkContext(ctx context.Context) (working context.Context, stop func()) {
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stopped := hardStopOf(ctx)
	check := func() {
		if stopped.Err() != nil || errors.Is(context.Cause(ctx), ErrStopNow) {
			end(ErrStopNow)
		}
	}
	check()
	releaseStopped, releaseEnded := context.AfterFunc(stopped, check), context.AfterFunc(ctx, check)
	return working, func() {
		releaseStopped()
		releaseEnded()
		end(nil)
	}
}
