package wirebench

import (
	"context"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFloorsDecodeEverything(t *testing.T) {
	const few = 25
	for _, d := range []floorDecoder{floorJSON{}, floorProtobuf{}} {
		server, err := (&apiserver.Servers{Objects: few}).Start("pods", apiserver.Lists)
		require.NoError(t, err)
		f := &floorLoop{d, server.URL + "/api/v1/pods", map[string]*corev1.Pod{}}
		counter := measure.NewCounter(1)
		counter.Expect(few)
		r := measure.Start(func(ctx context.Context) error { return f.run(ctx, func() { counter.Handled(0) }) })
		require.NoError(t, counter.Wait())
		counter.Expect(few)
		require.NoError(t, apiserver.Order(server.URL, "modify?n=25"))
		require.NoError(t, counter.Wait())
		require.NoError(t, r.Close())
		http.DefaultClient.CloseIdleConnections()
		server.Close()

		require.Len(t, f.pods, few)
		for _, pod := range objects.Pods(few, objects.Templated) {
			got := f.pods[pod.Namespace+"/"+pod.Name]
			require.NotNil(t, got)
			require.NotEqual(t, pod.ResourceVersion, got.ResourceVersion)
			pod.ResourceVersion = got.ResourceVersion
			want, err := pod.Marshal() // protobuf, because quantities remember how they were written
			require.NoError(t, err)
			text, err := got.Marshal()
			require.NoError(t, err)
			require.Equal(t, string(want), string(text))
		}
	}
	assert.ErrorContains(t, unwrap([]byte("<html>"), &corev1.Pod{}), "<html>")
}
