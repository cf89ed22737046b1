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

func TestMetadataOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		server := reflectortest.Start(t)
		c, err := cluster.Of(server)
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), &out, c))
		assert.Equal(t, `ConfigMap default/shop of team sales: less than 1 kB is held: true
Secret default/shop of team sales: less than 1 kB is held: true
`, out.String())
		for _, request := range server.Requests(reflectortest.Verb("watch")) {
			assert.Contains(t, request.Header.Get("Accept"), "as=PartialObjectMetadata", request.Path)
		}
	})
}
