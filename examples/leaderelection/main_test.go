package main

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

func TestLeaderElection(t *testing.T) {
	assert.Equal(t, `One starts:
  one works on default/first
Two starts, and a ConfigMap is created:
  one works on default/second
One stops:
  two works on default/first
  two works on default/second
A ConfigMap is created:
  two works on default/third
`, clustertest.Output(t, demo))
}

// withoutConfigMaps has no client for the informer, which therefore ends at once.
type withoutConfigMaps struct{ kubernetes.Interface }

func (withoutConfigMaps) CoreV1() typedcorev1.CoreV1Interface { return noCore{} }

type noCore struct{ typedcorev1.CoreV1Interface }

func (noCore) ConfigMaps(string) typedcorev1.ConfigMapInterface { return nil }

func TestProcessWithoutACacheEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.Of(reflectortest.Start(t))
		require.NoError(t, err)
		c.Interface = withoutConfigMaps{c.Interface}
		result := make(chan error, 1)
		go func() { result <- process(t.Context(), io.Discard, c, "one") }()
		select {
		case err := <-result:
			assert.ErrorIs(t, err, reflector.ErrNoClient)
		case <-time.After(time.Hour):
			t.Error("it would lead")
		}
	})
}
