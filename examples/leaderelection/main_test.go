package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestLeaderElection(t *testing.T) {
	assert.Equal(t, `One starts:
  one works on default/first
Two starts, and a ConfigMap is created:
  one works on default/second
One stops:
  two works on default/first
  two works on default/second
A ConfigMap is created:
  two works on default/third
`, clustertest.Output(t, demo))
}
