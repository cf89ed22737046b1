package main

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

// The handlers of a step print in any order.
func TestFromClientGo(t *testing.T) {
	want := `First step: client-go's informer runs:
  mails (client-go): web appeared
  metrics (moved): web appeared
  watches of pods: 1
Second step: the informer of this library runs:
  metrics (moved): web appeared
  mails (client-go): web appeared
  watches of pods: 1
`
	assert.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(clustertest.Output(t, demo), "\n"))
}
