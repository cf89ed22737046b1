package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo changes the labels of pods.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	pod := func(name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}}
	}
	return cluster.Steps(ctx,
		cluster.Say(out, "app=web and app=db are selected. Pods are created, also one with the name debug:"),
		c.Create(pod("front", "web"), pod("debug", "web"), pod("orders", "db"), pod("mails", "queue")),
		cluster.Say(out, "The label of front changes from web to db:"),
		c.Update(pod("front", "db")),
		cluster.Say(out, "The label of orders changes from db to queue, and the pod still exists:"),
		c.Update(pod("orders", "queue")),
	)
}
