package term

import (
	"context"
	"time"
)

type key struct{}

// Begin returns a context of a term that begins now.
func Begin(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, time.Now()) }

// Begun returns when the term of a context began, if it has one.
func Begun(ctx context.Context) (at time.Time, elected bool) {
	at, elected = ctx.Value(key{}).(time.Time)
	return at, elected
}

// Elapsed returns the time since a moment, by the clock that shows more. The monotonic clock stands
// still while the machine is suspended, and the wall clock may be set back.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
