package main

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joinsAfter is twice the time of the demo's first three steps, because a loaded machine may need longer.
const joinsAfter = 6 * cluster.Pause

// demo changes pods.
func demo(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	begin := time.Now()
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	return cluster.Steps(ctx,
		c.Create(pod("web", corev1.PodPending)),
		c.Create(pod("db", corev1.PodPending)),
		c.Update(pod("web", corev1.PodRunning)),
		func() error { // the late subscriber joins
			select {
			case <-time.After(time.Until(begin.Add(joinsAfter))):
			case <-ctx.Done():
			}
			return nil
		},
		c.Update(pod("db", corev1.PodRunning)),
		c.Delete(pod("web", "")),
		c.Create(pod("web", corev1.PodPending)),
	)
}
