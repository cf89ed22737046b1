package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo lets nodes join, cordons one of them, and removes another one.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	node := func(name, architecture string, cordoned bool) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: architecture}},
			Spec:       corev1.NodeSpec{Unschedulable: cordoned},
		}
	}
	return cluster.Steps(ctx,
		cluster.Say(out, "-- three nodes join, one of another architecture"),
		c.Create(node("node-1", "amd64", false)),
		c.Create(node("node-2", "arm64", false), node("node-3", "s390x", false)),
		cluster.Say(out, "-- node-1 is cordoned, and still exists"),
		c.Update(node("node-1", "amd64", true)),
		cluster.Say(out, "-- node-1 takes pods again, and node-2 is removed"),
		c.Update(node("node-1", "amd64", false)),
		c.Delete(node("node-2", "", false)),
	)
}
