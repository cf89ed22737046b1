package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMedian(t *testing.T) {
	assert.Zero(t, Median(nil))
	assert.Equal(t, 7.0, Median([]float64{7}))
	assert.Equal(t, 2.5, Median([]float64{4, 1, 3, 2}))
	figures := []float64{9, 1, 1000}
	assert.Equal(t, 9.0, Median(figures))
	assert.Equal(t, []float64{9, 1, 1000}, figures, "the figures keep their order")
}
