package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo runs both steps. On a cluster of -kubeconfig it runs the second one.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory == nil {
		return secondStep(ctx, out, c)
	}
	if err := c.Memory.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}); err != nil {
		return err
	}
	for _, step := range []struct {
		title string
		run   cluster.Program
	}{
		{"First step: client-go's informer runs", firstStep},
		{"Second step: the informer of this library runs", secondStep},
	} {
		c.Memory.ForgetRequests()
		show := func(ctx context.Context, out io.Writer, c cluster.Cluster) error {
			return cluster.Steps(ctx, func() error {
				watches := c.Memory.Requests(reflectortest.Verb("watch"))
				_, err := fmt.Fprintf(out, "  watches of pods: %d\n", len(watches))
				return err
			})
		}
		fmt.Fprintf(out, "%s:\n", step.title)
		if err := cluster.With(step.run, show)(ctx, out, c); err != nil {
			return err
		}
	}
	return nil
}
