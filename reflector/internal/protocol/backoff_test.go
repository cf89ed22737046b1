package protocol

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBackoffGrowsThroughALongOutage(t *testing.T) {
	// client-go's falls back to its shortest wait every few minutes.
	b := backoff{limit: MaxBackoff}
	now := time.Unix(0, 0)
	b.healthy(now)
	for i := range 200 {
		d := b.next(now, rand.Float64())
		assert.GreaterOrEqual(t, d, MinBackoff)
		assert.LessOrEqual(t, d, min(MinBackoff<<min(i+1, 10), MaxBackoff))
		now = now.Add(d)
		if i%10 == 0 {
			b.healthy(now) // for a moment
		}
	}
	assert.Equal(t, 200, b.failures)
	b.healthy(now)
	b.next(now.Add(HealthAfter), 0)
	assert.Equal(t, 1, b.failures, "two minutes of health")
}
