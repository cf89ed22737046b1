package referencebench

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	w := newWorld(context.Background(), scale{objects: 100, bytes: 100, rounds: 1}, "")
	t.Cleanup(func() {
		assert.NoError(t, w.close())
		http.DefaultClient.CloseIdleConnections()
	})
	measuretest.EveryCaseRuns(t, w.cases(), 1, func(t *testing.T, c measure.Case, figure float64) {
		if strings.HasSuffix(c.Name, "missed") {
			assert.Zero(t, figure)
		} else {
			assert.Positive(t, figure)
		}
	})
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	_, err := worker.Measure(t.Context(), assignment{Contender: "nobody"})
	assert.ErrorContains(t, err, `no contender "nobody"`)
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }
