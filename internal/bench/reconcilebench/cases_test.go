package reconcilebench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	wirebench.Main()
	Main()
	goleak.VerifyTestMain(m)
}

var tiny = scale{objects: 40, many: 80, passes: 1, alone: 3, rounds: 1}

func newTinyWorld(t *testing.T) *world {
	w := newWorld(context.Background(), tiny, "")
	t.Cleanup(func() {
		assert.NoError(t, w.within(func() error { return nil }))
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	w := newTinyWorld(t)
	names := map[string]bool{}
	for _, c := range w.cases() {
		require.False(t, names[c.Name], "two cases have the name %s", c.Name)
		names[c.Name] = true
		ours, peer, err := c.Sides()
		require.NoError(t, err)
		figure, err := ours()
		require.NoError(t, err, c.Name)
		other, err := peer()
		require.NoError(t, err, c.Name)
		assert.Positive(t, figure, c.Name)
		assert.Positive(t, other, c.Name)
	}
	for e, samples := range w.samples {
		assert.Len(t, samples, 1, "cases share what was measured of %v", e)
	}
}

func TestNoKeyGoesOnWhileTheGateIsShut(t *testing.T) {
	w := newWork()
	w.expect(2)
	w.begin()
	w.end()
	open := w.shut()
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		w.begin()
		w.end()
	}()
	assert.Equal(t, int64(1), w.left.Load())
	open()
	<-passed
	<-w.reached
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	_, err := inProcess(t.Context(), assignment{Contender: "nobody"})
	assert.ErrorContains(t, err, `no contender "nobody"`)
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	assert.ErrorContains(t, Run([]string{"all"}, &bytes.Buffer{}, io.Discard), `"all"`)
	assert.Error(t, Run([]string{"-nonsense"}, &bytes.Buffer{}, io.Discard))
}
