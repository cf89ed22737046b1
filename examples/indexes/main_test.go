package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `on node-1: [db report web]
the most important first: [db web report]
priority of 100 and more: [web db]
10.0.0.2 is [db]
then: 3 pods, on node-1: [db report web]
now: 2 pods, on node-1: [report web]
`, out.String())
	})
}
