package reconcile

import (
	"context"
	"slices"
)

// observers combines several observers. Each observer gets the context of the observer before it,
// and the reconcile function gets the context of the last one.
type observers []Observer

// Triggered implements [Observer].
func (o observers) Triggered(ctx context.Context, trigger Trigger) {
	for _, one := range o {
		one.Triggered(ctx, trigger)
	}
}

// Reconciling implements [Observer]. It calls the done functions in the opposite order.
func (o observers) Reconciling(ctx context.Context, call Call) (context.Context, func(Result, error)) {
	var last func(Result, error) // most calls have one at most
	var before []func(Result, error)
	for _, one := range o {
		var done func(Result, error)
		if ctx, done = one.Reconciling(ctx, call); done == nil {
			continue
		}
		if last != nil {
			before = append(before, last)
		}
		last = done
	}
	if len(before) == 0 {
		return ctx, last
	}
	return ctx, func(result Result, err error) {
		last(result, err)
		for _, done := range slices.Backward(before) {
			done(result, err)
		}
	}
}
