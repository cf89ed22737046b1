package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo creates a ConfigMap and reads its stamp.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	letter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "letter"}}
	return cluster.Steps(ctx, c.Create(letter), func() error {
		err := c.Memory.Get(letter)
		fmt.Fprintf(out, "letter has a stamp: %s\n", letter.Annotations[stamp])
		return err
	})
}
