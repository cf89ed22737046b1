package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCustomResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out, reflectortest.Start(t, custom)))
		assert.Equal(t, `Telescope hale should look at Vega
Telescope hale should look at Deneb now
hale looks at Deneb
`, out.String())
	})
}
