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

func TestMetadataOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		server := reflectortest.Start(t)
		c, err := cluster.Of(server)
		require.NoError(t, err)
		require.NoError(t, demo(t.Context(), &out, c))
		assert.Equal(t, `each object: more than 100000 bytes on the server
ConfigMap default/shop of team sales: 186 bytes in the cache
Secret default/shop of team sales: 186 bytes in the cache
`, out.String())
		for _, request := range server.Requests(reflectortest.Verb("watch")) {
			assert.Contains(t, request.Header.Get("Accept"), "as=PartialObjectMetadata", request.Path)
		}
	})
}
