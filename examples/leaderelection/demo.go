package main

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo runs two processes and stops the leader.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	start := func(name string) (stop func() error) {
		ctx, cancel := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- process(ctx, out, c, name) }()
		return func() error {
			cancel()
			return <-result
		}
	}
	create := func(name string) func() error {
		return c.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	var stopOne, stopTwo func() error
	return cluster.Steps(ctx,
		create("first"),
		cluster.Say(out, "One starts:"),
		func() error { stopOne = start("one"); <-time.After(8 * time.Second); return nil },
		cluster.Say(out, "Two starts, and a ConfigMap is created:"),
		func() error { stopTwo = start("two"); return nil },
		create("second"),
		cluster.Say(out, "One stops:"),
		// Two asks the server whether its cache is behind before it works.
		func() error { err := stopOne(); <-time.After(8 * time.Second); return err },
		cluster.Say(out, "A ConfigMap is created:"),
		create("third"),
		func() error { return stopTwo() },
	)
}
