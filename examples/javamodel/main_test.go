package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestJavaModel(t *testing.T) {
	assert.Equal(t, `Addition of default/high with map[first:do]
Modification of default/high with map[first:re], before: map[first:do]
default/high is still there with map[first:re]
Addition of default/low with map[first:do]
Deletion of default/high with map[first:re], before: map[first:re]
tracked 1, in the cache 1
`, clustertest.Output(t, run))
}
