package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
)

func TestAnyKind(t *testing.T) {
	assert.Equal(t, `configmaps-have-owners: ConfigMap configmaps-have-owners lacks the label owner
configmaps-have-owners: ConfigMap widgets-have-owners lacks the label owner
-- Widgets are defined
widgets-have-owners: Widget blue lacks the label owner
-- the definition is deleted
widgets-have-owners: Widget blue is gone
widgets-have-owners: Widget red is gone
-- and made again
widgets-have-owners: Widget green lacks the label owner
-- the rule about Widgets is deleted
configmaps-have-owners: ConfigMap widgets-have-owners is gone
`, clustertest.Output(t, cluster.With(run, demo), reflectortest.WithCustomResourceDefinitions()))
}
