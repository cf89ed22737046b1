package informer

import (
	"context"
	"slices"
)

// observers combines several observers. Each observer gets the context of the observer before it,
// and the handler gets the context of the last one.
type observers []Observer

// Handling implements [Observer]. It calls the done functions in the opposite order.
func (o observers) Handling(ctx context.Context, call Handling) (context.Context, func(error)) {
	var last func(error) // most calls have one at most
	var before []func(error)
	for _, one := range o {
		var done func(error)
		if ctx, done = one.Handling(ctx, call); done == nil {
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
	return ctx, func(err error) {
		last(err)
		for _, done := range slices.Backward(before) {
			done(err)
		}
	}
}
