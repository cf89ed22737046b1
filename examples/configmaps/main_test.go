package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestConfigMaps(t *testing.T) {
	assert.Equal(t, `default/colors appeared with map[sky:blue]
default/colors changed from map[sky:blue] to map[sky:grey]
default/colors is gone; it had map[sky:grey]
`, clustertest.Output(t, cluster.With(run, demo)))
}
