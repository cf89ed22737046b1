package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestEventQueues(t *testing.T) {
	assert.Equal(t, `default/high appeared with map[first:do]
default/high changed from map[first:do] to map[first:re]
default/high is still there with map[first:re]
default/low appeared with map[first:do]
default/high is gone; it had map[first:re]
consumed 1, in the cache 1
`, clustertest.Output(t, run))
}
