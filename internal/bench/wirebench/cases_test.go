package wirebench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

var tiny = scale{objects: 60, alone: 2, rounds: 1}

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
		if !strings.Contains(c.Name, "growth") && !strings.Contains(c.Name, "live-heap") { // of so few objects nothing may be left
			assert.Positive(t, figure)
		}
	})
	for e, samples := range w.samples {
		assert.Len(t, samples, 1, "cases share what was measured of %v", e)
	}
}

func TestPairingsAreOfContendersThatExist(t *testing.T) {
	used := map[string]bool{}
	for _, p := range pairings {
		assert.Contains(t, datasets, p.dataset, p.name)
		for _, name := range []string{p.ours, p.peer} {
			assert.Contains(t, contenders, name, p.name)
			used[name] = true
		}
	}
	for name := range contenders {
		assert.True(t, used[name], "%s is in no case", name)
	}
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	w := newTinyWorld(t)
	require.NoError(t, w.prepare("pods"))
	_, err := w.server.measure(t.Context(), assignment{Contender: "nobody", Dataset: "pods"}, lists)
	assert.ErrorContains(t, err, `no contender "nobody"`)
	assert.ErrorContains(t, w.prepare("nothing"), "404")
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	measuretest.RefusesNonsense(t, Run)
	assert.Error(t, Run([]string{"-cpuprofile", "file"}, &bytes.Buffer{}, io.Discard), "this process has nothing to profile")
}
