package memorybench

import (
	"context"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
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

var tiny = scale{objects: 60, reads: 130, walks: 2, rounds: 1}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	w := newWorld(context.Background(), tiny, "")
	t.Cleanup(func() {
		assert.NoError(t, w.close())
		http.DefaultClient.CloseIdleConnections()
	})
	measuretest.EveryCaseRuns(t, w.cases(), 1, func(t *testing.T, c measure.Case, figure float64) {
		if c.Unit == fill.unit || c.Unit == rss.unit && c.Goal == (measure.Goal{}) {
			assert.GreaterOrEqual(t, figure, 0.0)
		}
	})
	for name := range contenders {
		assert.Len(t, w.samples[entry{name, templated}], 1, "%s is in some case, and cases share what was measured of it", name)
		assert.Positive(t, w.samples[entry{name, templated}][0].Fill, name)
		assert.Positive(t, w.samples[entry{name, templated}][0].Read, name)
	}
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	_, err := worker.Measure(t.Context(), assignment{Contender: "nobody"})
	assert.ErrorContains(t, err, `no contender "nobody"`)
}

func TestContenderThatLacksObjectsIsAnError(t *testing.T) {
	w := newWorld(context.Background(), tiny, "")
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { assert.NoError(t, w.close()) }()
	require.NoError(t, w.prepare(templated))
	_, err := worker.Measure(t.Context(), assignment{Contender: "plain", Host: w.server.Root(templated), Objects: tiny.objects + 1})
	assert.ErrorContains(t, err, "holds 60 objects where there are 61")
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }
