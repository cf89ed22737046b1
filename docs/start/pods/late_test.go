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

func TestPodsArePrintedHoweverLateTheServerIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.PodSpec{NodeName: "node-1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}))
		server.Inject(reflectortest.Refuse())
		ctx, stop := context.WithCancel(t.Context())
		var out strings.Builder
		result := make(chan error, 1)
		go func() { result <- run(ctx, &out, server.Config()) }()
		<-time.After(time.Minute)
		server.ClearFaults()
		<-time.After(time.Minute)
		stop()
		require.NoError(t, <-result)
		assert.Equal(t, "node-1 default/web Running\n", out.String())
	})
}
