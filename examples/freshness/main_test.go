package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestFreshness(t *testing.T) {
	assert.Equal(t, `The lamp was switched on, and the cache says: off
Waited in vain for version 3 of default/lamp: the cache is at 2
Waited for the lamp. The cache says: on
Waited for a lamp of the kitchen. Lamps in the cache: 1
Waited for the deletion. Lamps in the cache: 0
`, clustertest.Output(t, demo, often))
}
