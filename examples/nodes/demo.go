package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo lets nodes join, and cordons and removes one of them.
func demo(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	node := func(name, architecture string, cordoned bool) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: architecture}},
			Spec:       corev1.NodeSpec{Unschedulable: cordoned},
		}
	}
	return cluster.Steps(ctx,
		c.Create(node("node-1", "amd64", false)),
		c.Create(node("node-2", "arm64", false)),
		c.Update(node("node-1", "amd64", true)),
		c.Delete(node("node-1", "", false)),
	)
}
