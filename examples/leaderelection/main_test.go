package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLeaderElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `One starts:
  one works on default/first
Two starts, and something happens:
  one works on default/second
One stops:
  two works on default/first
  two works on default/second
Something happens:
  two works on default/third
`, out.String())
		assert.Less(t, time.Since(begin), 5*time.Second, "the first one waits for a lease duration, and the second does not")
	})
}

func TestRealClustersAreLeftAlone(t *testing.T) {
	assert.Error(t, run(t.Context(), &strings.Builder{}, cluster.Cluster{}))
}
