package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPodsArePrintedByNodeAndThenTheirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, play(t.Context(), &out, reflectortest.Start(t)))
		assert.Equal(t, `node-1 default/db Running
node-2 default/web Pending
web was Pending and is Running
cache is new
db is gone
`, out.String())
	})
}
