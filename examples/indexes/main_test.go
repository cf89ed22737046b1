package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestIndexes(t *testing.T) {
	assert.Equal(t, `on node-1: [db report web]
the most important first: [db web report]
priority of 100 and more: [web db]
10.0.0.2 is [db]
then: 3 pods, on node-1: [db report web]
now: 2 pods, on node-1: [report web]
`, clustertest.Output(t, demo))
}
