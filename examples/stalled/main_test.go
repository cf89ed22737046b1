package main

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The demo waits for a busy watch, which a synctest bubble does not allow.
func TestStalled(t *testing.T) {
	c, err := cluster.Of(reflectortest.Start(t, shortHistory))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, demo(t.Context(), &out, c))
	assert.Equal(t, `The handler is stuck while a ConfigMap of 50 KiB changes 1000 times:
  client-go keeps about 50 MiB and calls the handler 1001 times
  kubereflector keeps less than 5 MiB and calls the handler 2 times
`, out.String())
}
