package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newPod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestPodsArePrintedByNodeAndThenTheirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(newPod("web", "node-2", corev1.PodPending)))
		require.NoError(t, server.Create(newPod("db", "node-1", corev1.PodRunning)))
		ctx, stop := context.WithCancel(t.Context())
		var out strings.Builder
		result := make(chan error, 1)
		go func() { result <- run(ctx, &out, server.Config()) }()
		for _, change := range []func() error{
			func() error { return server.Update(newPod("web", "node-2", corev1.PodRunning)) },
			func() error { return server.Create(newPod("cache", "node-1", corev1.PodPending)) },
		} {
			<-time.After(time.Minute)
			require.NoError(t, change())
		}
		<-time.After(time.Minute)
		stop()
		require.NoError(t, <-result)
		assert.Equal(t, "node-1 default/db Running\nnode-2 default/web Pending\n"+
			"web was Pending and is Running\ncache is new\n", out.String())
	})
}
