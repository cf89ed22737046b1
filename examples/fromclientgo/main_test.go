package main

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The handlers of a step print in any order.
func TestFromClientGo(t *testing.T) {
	want := strings.Split(`First step: client-go's informer runs:
  mails (client-go): web appeared
  metrics (moved): web appeared
  watches of pods: 1
Second step: the informer of this library runs:
  metrics (moved): web appeared
  mails (client-go): web appeared
  watches of pods: 1
`, "\n")
	got := strings.Split(clustertest.Output(t, demo), "\n")
	require.Len(t, got, len(want))
	assert.ElementsMatch(t, want[:4], got[:4])
	assert.ElementsMatch(t, want[4:], got[4:])
}
