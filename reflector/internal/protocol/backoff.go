package protocol

import "time"

const (
	// MinBackoff and MaxBackoff bound the pause after a failed request.
	MinBackoff = 800 * time.Millisecond
	MaxBackoff = 30 * time.Second

	// maxRejectionBackoff is the longest pause between lists that the reflector makes because the
	// store keeps rejecting an object. That object may never become valid.
	maxRejectionBackoff = 10 * time.Minute

	// HealthAfter is the time without a failure after which a backoff starts anew. client-go counts
	// from the last failure instead, and so falls back to the shortest wait every few minutes of an
	// outage.
	HealthAfter = 2 * time.Minute
)

// backoff computes the pause after a failure.
type backoff struct {
	limit        time.Duration
	failures     int       // since it started anew
	healthySince time.Time // zero after a failure
}

// healthy records a success.
func (b *backoff) healthy(now time.Time) {
	if b.healthySince.IsZero() {
		b.healthySince = now
	}
}

// next records a failure and returns the pause. The pause is a random time between minBackoff and a
// ceiling. The ceiling doubles with each failure, up to limit.
func (b *backoff) next(now time.Time, dice float64) time.Duration {
	if !b.healthySince.IsZero() && now.Sub(b.healthySince) >= HealthAfter {
		b.failures = 0
	}
	b.healthySince = time.Time{}
	b.failures++
	ceiling := MinBackoff
	for range min(b.failures, 20) { // 20 doublings pass every limit
		ceiling = min(2*ceiling, b.limit)
	}
	return MinBackoff + time.Duration(dice*float64(ceiling-MinBackoff))
}
