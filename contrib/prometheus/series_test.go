package prometheus

import (
	"sync"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is measured of a subscriber while it is found to be gone leaves nothing behind that is
// never deleted, and hides nothing that is measured later.
func TestSeriesThatAreUsedWhileTheyAreDeleted(t *testing.T) {
	m := New()
	registry := prom.NewPedanticRegistry()
	registry.MustRegister(m)
	nobody := []*source{{name: "maps", label: "maps", names: func(map[string]bool) {}}}
	of := subscriber{"maps", "worker"}
	for range 2000 {
		var all sync.WaitGroup
		for _, what := range []measure{waited, succeeded, failed} {
			all.Go(func() {
				for range 10 {
					m.observerOf(of, what).Observe(1)
				}
			})
		}
		all.Go(func() {
			for range 10 {
				m.tidy(nobody)
			}
		})
		all.Wait()
		m.tidy(nobody)
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Empty(t, families)
	}

	m.observerOf(of, succeeded).Observe(1)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	assert.EqualValues(t, 1, families[0].GetMetric()[0].GetHistogram().GetSampleCount())
}

func TestMeasuringASubscriberCostsNoMemory(t *testing.T) {
	m := New()
	of := subscriber{"maps", "worker"}
	assert.Zero(t, testing.AllocsPerRun(1000, func() { m.observerOf(of, succeeded).Observe(1) }))
}
