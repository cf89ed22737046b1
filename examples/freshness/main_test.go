package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out, reflectortest.Start(t, often)))
		assert.Equal(t, `The lamp was switched on, and the cache says: off
Waited in vain for version 3 of default/lamp: the cache is at 2
Waited for it: the cache says: on
Waited for one in the kitchen: the cache has 1 lamp
Waited for the deletion: the cache has no lamp
`, out.String())
	})
}
