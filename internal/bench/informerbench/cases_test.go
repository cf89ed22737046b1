package informerbench

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure/measuretest"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tiny = scale{size: objects.Size{Pods: 50, Namespaces: 3, Nodes: 5}, busy: 10, calls: 200, wired: 40, idle: 3}

func TestEveryCaseRunsOnBothSides(t *testing.T) {
	measuretest.EveryCaseRuns(t, newWorld(tiny).cases(), 1, nil)
}

func TestEveryUpdateReachesEveryHandler(t *testing.T) {
	w := newWorld(tiny)
	for _, open := range []func(int, *server) (subject, error){newOurs, newPeer} {
		s, err := open(3, newServer(w.set.Pods, w.set.Version()))
		require.NoError(t, err)
		for _, changed := range w.changes(3) {
			require.NoError(t, update(s, changed))
		}
		s.close()
	}
}

func TestArgumentsThatMakeNoSense(t *testing.T) { measuretest.RefusesNonsense(t, Run) }
