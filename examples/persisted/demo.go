package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo runs two processes and changes objects between them.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	folder, err := os.MkdirTemp("", "persisted")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	run := func(ctx context.Context, out io.Writer, c cluster.Cluster) error {
		return process(ctx, out, c, filepath.Join(folder, "configmaps"))
	}
	configMap := func(name, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"text": text}}
	}
	lists := func() error {
		n := 0
		for _, r := range c.Memory.Requests() {
			if r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true" {
				n++
			}
		}
		_, err := fmt.Fprintf(out, "  lists: %d\n", n)
		return err
	}
	first := cluster.With(run, func(ctx context.Context, _ io.Writer, _ cluster.Cluster) error {
		return cluster.Steps(ctx, lists)
	})
	answers := make(chan struct{})
	second := cluster.With(run, func(ctx context.Context, out io.Writer, c cluster.Cluster) error {
		return cluster.Steps(ctx,
			cluster.Say(out, "The server answers:"),
			func() error { close(answers); return nil },
			lists)
	})
	return cluster.Steps(ctx,
		c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}),
		c.Create(configMap("till", "open"), configMap("stock", "full"), configMap("sign", "welcome")),
		cluster.Say(out, "The first process:"),
		func() error { return first(ctx, out, c) },
		cluster.Say(out, "No process runs. The till is closed, and the sign is deleted."),
		c.Update(configMap("till", "closed")),
		c.Delete(configMap("sign", "")),
		func() error {
			c.Memory.ForgetRequests()
			cluster.Server(c).Inject(reflectortest.Stall(answers).On("watch", "configmaps"))
			return nil
		},
		cluster.Say(out, "The second process, while the server does not answer its watch:"),
		func() error { return second(ctx, out, c) },
	)
}
