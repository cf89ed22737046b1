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

func TestProjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		server := reflectortest.Start(t)
		c, err := cluster.Of(server)
		require.NoError(t, err)
		require.NoError(t, demo(t.Context(), &out, c))
		assert.Equal(t, `default/web-000 of team sales is on node-0
default/web-001 of team sales is on node-1
default/web-002 of team sales is on node-2
1000 pods take more than 10 MB: true
the metadata of 1000 pods takes less than 5 MB: true
1000 places take less than 1 MB: true
`, out.String())
		onlyMetadata := 0
		for _, request := range server.Requests(reflectortest.Verb("watch")) {
			if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata") {
				onlyMetadata++
			}
		}
		assert.Equal(t, 2, onlyMetadata, "one in each round of the demo")
	})
}
