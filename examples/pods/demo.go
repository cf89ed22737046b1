package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joinsAfter is the time of the demo's empty step.
const joinsAfter = 4 * cluster.Pause

// demo changes pods.
func demo(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	return cluster.Steps(ctx,
		c.Create(pod("web", corev1.PodPending)),
		c.Create(pod("db", corev1.PodPending)),
		c.Update(pod("web", corev1.PodRunning)),
		func() error { return nil },
		c.Update(pod("db", corev1.PodRunning)),
		c.Delete(pod("web", "")),
		c.Create(pod("web", corev1.PodPending)),
	)
}
