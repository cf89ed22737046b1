package reflector

import "time"

const (
	minBackoff = 800 * time.Millisecond
	maxBackoff = 30 * time.Second

	// maxRejectionBackoff limits how often everything is listed because of an
	// object that the store keeps rejecting: it may be bad for good.
	maxRejectionBackoff = 10 * time.Minute

	// healthAfter is how long nothing must fail until a backoff starts anew.
	// client-go counts from the last failure instead, and so falls back to the
	// shortest wait every few minutes of an outage.
	healthAfter = 2 * time.Minute
)

// backoff is how long to wait after failures.
type backoff struct {
	limit        time.Duration
	failures     int       // since it started anew
	healthySince time.Time // zero after a failure
}

// healthy notes that something worked.
func (b *backoff) healthy(now time.Time) {
	if b.healthySince.IsZero() {
		b.healthySince = now
	}
}

// next notes a failure and returns how long to wait: at least minBackoff, and by the
// dice up to twice as long with each failure, at most limit.
func (b *backoff) next(now time.Time, dice float64) time.Duration {
	if !b.healthySince.IsZero() && now.Sub(b.healthySince) >= healthAfter {
		b.failures = 0
	}
	b.healthySince = time.Time{}
	b.failures++
	ceiling := minBackoff
	for range min(b.failures, 20) { // 20 doublings pass every limit
		ceiling = min(2*ceiling, b.limit)
	}
	return minBackoff + time.Duration(dice*float64(ceiling-minBackoff))
}
