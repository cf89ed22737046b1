package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out, cluster.Embedded()))
		assert.Equal(t, `default/colors appeared with map[sky:blue]
default/colors changed from map[sky:blue] to map[sky:grey]
default/colors is gone; it had map[sky:grey]
`, out.String())
	})
}
