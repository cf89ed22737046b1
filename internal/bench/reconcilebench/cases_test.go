package reconcilebench

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/kubereflector/kubereflector/internal/bench/wirebench"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	wirebench.Main()
	Main()
	goleak.VerifyTestMain(m)
}

var tiny = scale{objects: 40, many: 80, passes: 1, alone: 3, rounds: 1, owners: 40}

func newTinyWorld(t *testing.T) *world {
	w := newWorld(context.Background(), tiny, "")
	t.Cleanup(func() {
		assert.NoError(t, w.close())
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	w := newTinyWorld(t)
	measuretest.EveryCaseRuns(t, w.cases(), 1, func(t *testing.T, c measure.Case, figure float64) {
		if strings.HasSuffix(c.Name, "/writes") {
			assert.Zero(t, figure)
		} else {
			assert.Positive(t, figure)
		}
	})
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
	_, err := worker.Measure(t.Context(), assignment{Contender: "nobody"})
	assert.ErrorContains(t, err, `no contender "nobody"`)
	_, err = restarter.Measure(t.Context(), restart{Contender: "nobody"})
	assert.ErrorContains(t, err, `no operator "nobody"`)
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }
