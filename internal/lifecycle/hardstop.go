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

// OnHardStop calls a function at a hard stop, until release is called.
func OnHardStop(ctx context.Context, fn func()) (release func()) {
	releaseStopped := context.AfterFunc(hardStopOf(ctx), fn)
	releaseEnded := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrStopNow) {
			fn()
		}
	})
	return func() { releaseStopped(); releaseEnded() }
}
