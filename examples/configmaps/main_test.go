package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `default/colors appeared with map[sky:blue]
default/colors changed from map[sky:blue] to map[sky:grey]
default/colors is gone; it had map[sky:grey]
`, out.String())
	})
}
