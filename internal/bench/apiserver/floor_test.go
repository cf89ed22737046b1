package apiserver

import (
	"context"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestFloorsDecodeEverything(t *testing.T) {
	want := objects.Pods(few, objects.Templated)
	for _, f := range []Format{InJSON, InProtobuf} {
		t.Run(string(f), func(t *testing.T) {
			host, _ := newServer(t, "pods")
			c := NewFloor(host, f)
			counter := measure.NewCounter(1)
			counter.Expect(few)
			r := measure.Start(func(ctx context.Context) error { return c.Run(ctx, func() { counter.Handled(0) }) })
			require.NoError(t, counter.Wait())
			counter.Expect(few)
			tell(t, host, "modify?n=25")
			require.NoError(t, counter.Wait())
			require.NoError(t, r.Close())
			http.DefaultClient.CloseIdleConnections()

			held := c.pods
			require.Len(t, held, few)
			for _, pod := range want {
				got := held[pod.Namespace+"/"+pod.Name]
				require.NotNil(t, got)
				require.NotEqual(t, pod.ResourceVersion, got.ResourceVersion)
				pod := pod.DeepCopy()
				pod.ResourceVersion = got.ResourceVersion
				requireSamePod(t, pod, got)
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFloorRefusesWhatIsNoProtobuf(t *testing.T) {
	assert.ErrorContains(t, unwrap([]byte("<html>"), &corev1.Pod{}), "<html>")
}
