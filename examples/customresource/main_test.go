package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestCustomResource(t *testing.T) {
	assert.Equal(t, `Telescope hale looks at Vega
Telescope hale turns from Vega to Deneb
by target Deneb: default/hale
`, clustertest.Output(t, cluster.With(run, demo), custom))
}
