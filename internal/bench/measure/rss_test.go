package measure

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPeakRSSIsThatOfAProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		assert.Zero(t, PeakRSS())
		return
	}
	before := PeakRSS()
	assert.Greater(t, before, 1e6)
	much := make([]byte, 64<<20)
	for i := range much {
		much[i] = 1
	}
	assert.GreaterOrEqual(t, PeakRSS(), float64(len(much)), much[0])
}
