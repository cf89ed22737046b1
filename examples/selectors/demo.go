package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo changes the selectors and the labels of pods.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	pod := func(name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}}
	}
	return cluster.Steps(ctx,
		cluster.Say(out, "app=web is selected. Pods are created, also one with the name debug:"),
		c.Create(pod("front", "web"), pod("debug", "web"), pod("orders", "db"), pod("mails", "queue")),
		cluster.Say(out, "app=db is added:"),
		func() error { apps.Add(ofApp("db")); return nil },
		cluster.Say(out, "The label of orders changes from db to queue:"),
		c.Update(pod("orders", "queue")),
		cluster.Say(out, "Both selectors are removed:"),
		func() error { apps.Remove(ofApp("db")); return nil },
		func() error { apps.Remove(ofApp("web")); return nil },
	)
}
