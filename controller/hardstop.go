package controller

import (
	"context"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
)

// ErrStopNow is the cause of a context after a hard stop: a [Controller], a reconciler or the handlers of an
// informer then begin no further call, and the contexts of running calls end at once, with this cause.
var ErrStopNow = lifecycle.ErrStopNow

// HardStopContext returns a context for the Run of a [Controller], a reconciler or an informer, or of a member
// that runs several of them. It also returns the function hardStop, which ends the context with the
// cause [ErrStopNow]. hardStop also reaches a Run whose context has already ended, and that is
// draining its queue. Use it where all work must end by a given time, such as after the loss of a
// lease: see package leader. Call hardStop also after Run has returned: it releases the resources
// of the context.
func HardStopContext(ctx context.Context) (running context.Context, hardStop func()) {
	return lifecycle.HardStopContext(ctx)
}

// HardStopped returns a channel that is closed at a hard stop. Use it in a member of your own that
// still finishes its work after ctx has ended for another cause. It is never closed if ctx does not
// come from [HardStopContext].
func HardStopped(ctx context.Context) <-chan struct{} { return lifecycle.HardStopped(ctx) }
