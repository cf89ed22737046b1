package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		server := reflectortest.Start(t)
		c, err := cluster.Of(server)
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `default/web-000 is on node-0
default/web-001 is on node-1
default/web-002 is on node-2
default/web-003 is on node-3
default/web-004 is on node-4
default/web-005 is on node-5
default/web-006 is on node-6
default/web-007 is on node-0
default/web-008 is on node-1
default/web-009 is on node-2
1000 pods, 1000 places
the places take less than a tenth of the memory of the pods: true
`, out.String())
	})
}
