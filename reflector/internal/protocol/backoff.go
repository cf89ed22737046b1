package protocol

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// MinBackoff and MaxBackoff bound the pause after a failed request.
	MinBackoff = 800 * time.Millisecond
	MaxBackoff = 30 * time.Second

	// minPace and maxPace bound the time from the opening of a watch that lasts less than briefWatch
	// to the next request. So a server that ends each watch after one event gets about one request
	// a second, and a watch that lasts longer than maxPace is resumed at once.
	minPace = time.Second
	maxPace = 1600 * time.Millisecond

	// maxObeyed is how many answers in a row with a Retry-After only cause the pause that the
	// server asked for. A server that starts answers like this until its storage is ready
	// (KEP-4568), with a Retry-After of one second; client-go then asks ten
	// times.
	maxObeyed = 10

	// maxObeyedSpread is the longest time that a random share adds to a Retry-After, lest all
	// clients come back at the same moment.
	maxObeyedSpread = 5 * time.Second

	// maxRetryAfter bounds the server's Retry-After. A wrong value must not stop the reflector for
	// a day.
	maxRetryAfter = 10 * time.Minute

	// maxRejectionBackoff is the longest pause between lists that the reflector makes because the
	// store keeps rejecting an object. That object may never become valid.
	maxRejectionBackoff = 10 * time.Minute

	// HealthAfter is the time without a failure after which a backoff starts anew. client-go counts
	// from the last new start instead, whether there were failures or not, and so falls back to the
	// shortest wait every few minutes of an outage.
	HealthAfter = 2 * time.Minute
)

// backoff computes the pause after a failure.
type backoff struct {
	limit        time.Duration
	failures     int       // since it started anew
	obeyed       int       // answers with a Retry-After since then that did not let the pause grow
	healthySince time.Time // zero after a failure
}

// healthy records a success.
func (b *backoff) healthy(now time.Time) {
	if b.healthySince.IsZero() {
		b.healthySince = now
	}
}

// healed reports whether there was no failure for HealthAfter.
func (b *backoff) healed(now time.Time) bool {
	return !b.healthySince.IsZero() && now.Sub(b.healthySince) >= HealthAfter
}

// reset makes the next failure the first one.
func (b *backoff) reset() { b.failures, b.obeyed, b.healthySince = 0, 0, time.Time{} }

// obey records an answer with a Retry-After, which alone decides the pause.
func (b *backoff) obey() { b.failures, b.obeyed, b.healthySince = 0, b.obeyed+1, time.Time{} }

// next records a failure and returns the pause. The pause is a random time between MinBackoff and a
// ceiling. The ceiling doubles with each failure, up to limit.
func (b *backoff) next(now time.Time, dice float64) time.Duration {
	if b.healed(now) {
		b.failures = 0
	}
	b.healthySince = time.Time{}
	b.failures++
	ceiling := MinBackoff
	for range min(b.failures, 20) { // 20 doublings pass every limit
		ceiling = min(2*ceiling, b.limit)
	}
	return between(MinBackoff, ceiling, dice)
}

// between returns a random time.
func between(shortest, longest time.Duration, dice float64) time.Duration {
	return shortest + time.Duration(dice*float64(longest-shortest))
}

// retryAfter returns the pause that the server asked for with an error, and a random share more. It
// returns 0 if the server asked for none.
func retryAfter(err error, dice float64) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	// Limit the seconds before the conversion: 10^10 seconds overflow a Duration.
	asked := time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	return min(between(asked, asked+min(asked*6/10, maxObeyedSpread), dice), maxRetryAfter)
}
