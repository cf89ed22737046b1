package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestProjection(t *testing.T) {
	assert.Equal(t, `default/web-000 is on node-0
default/web-001 is on node-1
default/web-002 is on node-2
1000 pods take more than 10 MB: true
1000 places take less than 1 MB: true
`, clustertest.Output(t, demo))
}
