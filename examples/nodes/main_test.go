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

func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `0 nodes at resource version 1
1 nodes at resource version 2
  node-1: amd64, takes pods: true
2 nodes at resource version 3
  node-1: amd64, takes pods: true
  node-2: arm64, takes pods: true
2 nodes at resource version 4
  node-1: amd64, takes pods: false
  node-2: arm64, takes pods: true
1 nodes at resource version 5
  node-2: arm64, takes pods: true
`, out.String())
	})
}
