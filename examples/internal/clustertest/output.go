package clustertest

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// Output runs an example on an in-memory API server with the options and returns its output. A
// synctest bubble lets its pauses take no time, and fails the test if a goroutine is left.
func Output(t *testing.T, example cluster.Program, opts ...reflectortest.Option) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.Of(reflectortest.Start(t, opts...))
		if err == nil {
			err = example(t.Context(), cluster.Serial(&out), c)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return out.String()
}
