package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestNodes(t *testing.T) {
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
`, clustertest.Output(t, cluster.With(run, demo)))
}
