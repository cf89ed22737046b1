package main

import (
	"bytes"
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo records the program while an object changes, and replays the recording.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	light := func(color string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "crossing"}, Data: map[string]string{"light": color}}
	}
	var file bytes.Buffer
	record := cluster.With(
		func(ctx context.Context, out io.Writer, c cluster.Cluster) error {
			return recorded(ctx, out, c.Config, &file)
		},
		func(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
			return cluster.Steps(ctx, c.Create(light("red")), c.Update(light("green")), c.Update(light("red")))
		})
	return cluster.Steps(ctx,
		cluster.Say(out, "With a server:"),
		func() error { return record(ctx, out, c) },
		cluster.Say(out, "On the recording:"),
		func() error { return replayed(ctx, out, &file) },
	)
}
