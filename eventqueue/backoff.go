package eventqueue

import (
	"math/rand/v2"
	"time"
)

// backoff is how long a key waits after it failed.
type backoff struct{ base, limit time.Duration }

// delay returns the wait after the given number of failures in a row, which is
// at least 1.
func (b backoff) delay(failures int) time.Duration {
	d := b.base
	for range failures - 1 {
		if d >= b.limit/2 {
			d = b.limit
			break
		}
		d *= 2
	}
	d = min(d, b.limit)
	return d/2 + rand.N(d/2+1)
}
