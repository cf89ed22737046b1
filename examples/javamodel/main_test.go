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

func TestJavaModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `Addition of default/high with map[first:do]
Modification of default/high with map[first:re], before: map[first:do]
default/high is still there with map[first:re]
Addition of default/low with map[first:do]
Deletion of default/high with map[first:re], before: map[first:re]
tracked 1, in the cache 1
`, out.String())
	})
}
