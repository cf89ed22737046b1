package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo creates, changes and deletes a ConfigMap.
func demo(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	colors := func(color string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"}, Data: map[string]string{"sky": color}}
	}
	return cluster.Steps(ctx, c.Create(colors("blue")), c.Update(colors("grey")), c.Delete(colors("grey")))
}
