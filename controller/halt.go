package controller

import (
	"context"
	"errors"
)

// ErrHalt is the cause of the end of a context that leaves a [Controller] or a
// [Reconciler] no time to finish: it begins no other call, and the contexts of those
// that are being made end at once, with this cause.
var ErrHalt = errors.New("there is no time to finish")

// WithHalt returns a context for the Run of a [Controller] or a [Reconciler], or of
// whatever runs several of them, and a function that ends it with the cause [ErrHalt].
// That also reaches a Run whose context has ended already, and that is finishing what
// waits. It is for whoever must know that all is over by a given time, such as one who
// has lost a lease: see package leader. Call halt when Run has returned, too: it releases
// what belongs to the context.
func WithHalt(ctx context.Context) (halting context.Context, halt func()) {
	halted, cancel := context.WithCancel(haltOf(ctx))
	halting, end := context.WithCancelCause(context.WithValue(ctx, haltKey{}, halted))
	return halting, func() { cancel(); end(ErrHalt) }
}

type haltKey struct{}

// haltOf returns a context that ends when there is no time to finish, whether ctx has
// ended or not.
func haltOf(ctx context.Context) context.Context {
	if halted, ok := ctx.Value(haltKey{}).(context.Context); ok {
		return halted
	}
	return context.Background()
}

// onHalt has a function called when there is no time to finish, until stop is called.
func onHalt(ctx context.Context, halt func()) (stop func()) {
	stopHalted := context.AfterFunc(haltOf(ctx), halt)
	stopEnded := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrHalt) {
			halt()
		}
	})
	return func() { stopHalted(); stopEnded() }
}

// Halted returns a channel that is closed when there is no time to finish: for something
// of your own that finishes what it has begun after ctx has ended, where the cause of that
// end may have been another. It is never closed if ctx does not come from [WithHalt].
func Halted(ctx context.Context) <-chan struct{} { return haltOf(ctx).Done() }
