package controller

import (
	"context"
	"errors"
)

// ErrHalt is a cause of a context that leaves a [Controller] or a reconciler no time to finish:
// it begins no further call, and the contexts of running calls end at once, with this cause.
var ErrHalt = errors.New("there is no time to finish")

// WithHalt returns a context for the Run of a [Controller] or a reconciler, or of a member that
// runs several of them. It also returns a function that ends the context with the cause [ErrHalt].
// halt also reaches a Run whose context has already ended, and that is draining its queue. Use it
// where all work must end by a given time, such as after the loss of a lease: see package leader.
// Call halt also after Run has returned: it releases the resources of the context.
func WithHalt(ctx context.Context) (halting context.Context, halt func()) {
	halted, cancel := context.WithCancel(haltOf(ctx))
	halting, end := context.WithCancelCause(context.WithValue(ctx, haltKey{}, halted))
	return halting, func() { cancel(); end(ErrHalt) }
}

type haltKey struct{}

// haltOf returns a context that ends at halt, even if ctx has ended before.
func haltOf(ctx context.Context) context.Context {
	if halted, ok := ctx.Value(haltKey{}).(context.Context); ok {
		return halted
	}
	return context.Background()
}

// onHalt calls a function at halt, until stop is called.
func onHalt(ctx context.Context, halt func()) (stop func()) {
	stopHalted := context.AfterFunc(haltOf(ctx), halt)
	stopEnded := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrHalt) {
			halt()
		}
	})
	return func() { stopHalted(); stopEnded() }
}

// Halted returns a channel that is closed at halt. Use it in a member of your own that still
// finishes its work after ctx has ended for another cause. It is never closed if ctx does not come
// from [WithHalt].
func Halted(ctx context.Context) <-chan struct{} { return haltOf(ctx).Done() }
