package queuebench

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var tiny = scale{size: objects.Size{Pods: 50, Namespaces: 3, Nodes: 5}, busy: 10, rounds: 2, idle: 3, updates: 10}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	measuretest.EveryCaseRuns(t, newWorld(tiny).cases(), 1, nil)
}

func TestEveryUpdateReachesEveryHandler(t *testing.T) {
	w := newWorld(tiny)
	o, err := newOurs(3, w.set.Pods)
	require.NoError(t, err)
	defer o.close()
	p, err := newPeer(3, w.set.Pods)
	require.NoError(t, err)
	defer p.close()
	for _, s := range []subject{o, p} {
		require.NoError(t, update(s, w.changes(50)))
		assert.Zero(t, s.counting().busy.Load())
	}
}

func TestHandlerThatIsCalledTooOftenIsAnError(t *testing.T) {
	c := newCounter(2)
	c.expect(1)
	for _, n := range []int{0, 1, 1} {
		c.handled(n)
	}
	assert.ErrorContains(t, c.wait(), "1 times too often")
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }
