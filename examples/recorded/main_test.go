package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestRecorded(t *testing.T) {
	assert.Equal(t, `With a server:
  the light is red
  it turns green
  it turns red
On the recording:
  the light is red
  it turns green
  it turns red
`, clustertest.Output(t, demo))
}
