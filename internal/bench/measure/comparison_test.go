package measure

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCasesShareTheFiguresOfAProcess(t *testing.T) {
	measured := map[string]int{}
	c := Comparison[string]{Measure: func(a string) (Figures, error) {
		measured[a]++
		return Figures{"cpu": 1, "heap": 2}, nil
	}}
	cases := c.Cases("pods", 3, "ours", "peer", Metric{Name: "cpu"}, Metric{Name: "heap"}.Within(0.5), Metric{Name: "rss"})
	for i, want := range []float64{1, 2} {
		result, err := cases[i].measure(11, 0)
		require.NoError(t, err)
		assert.Equal(t, want, result.Ours)
	}
	assert.Equal(t, map[string]int{"ours": 3, "peer": 3}, measured)
	assert.Equal(t, "pods/heap", cases[1].Name)
	assert.Equal(t, RatioAtMost(0.5), cases[1].Goal)
	_, err := cases[2].measure(11, 0)
	assert.ErrorContains(t, err, "rss was not measured of ours")
}

func TestContenderThatEndsIsNotWaitedFor(t *testing.T) {
	r := Start(func(context.Context) error { return io.ErrUnexpectedEOF })
	_, err := Wait(r, make(chan int))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorIs(t, r.Close(), io.ErrUnexpectedEOF)
}
