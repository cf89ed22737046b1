package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestNodes(t *testing.T) {
	assert.Equal(t, `0 nodes at resource version 1
-- three nodes join, one of another architecture
1 nodes at resource version 2
  node-1: amd64
2 nodes at resource version 3
  node-1: amd64
  node-2: arm64
-- node-1 is cordoned, and still exists
1 nodes at resource version 5
  node-2: arm64
-- node-1 takes pods again, and node-2 is removed
2 nodes at resource version 6
  node-1: amd64
  node-2: arm64
1 nodes at resource version 7
  node-1: amd64
`, clustertest.Output(t, cluster.With(run, demo)))
}
