package main

import (
	"context"
	"io"
	"iter"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo creates three pods and deletes one of them between two reads.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	pods := informer.New(c.CoreV1().Pods("default"))
	change := func() error { return nil }
	if c.Memory != nil {
		db := pod("db", "10.0.0.2", 1000)
		if err := c.Create(pod("web", "10.0.0.1", 100), db, pod("report", "10.0.0.3", 10))(); err != nil {
			return err
		}
		change = func() error {
			if err := c.Memory.Delete(db); err != nil {
				return err
			}
			return await.Deletion(ctx, pods.Cache(), db)
		}
	}
	return cluster.While(ctx, pods.Run, func(ctx context.Context) error { return run(ctx, out, pods, change) })
}

func pod(name, address string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: "node-1", Priority: &priority},
		Status:     corev1.PodStatus{PodIP: address},
	}
}

func names(pods iter.Seq2[store.Key, *corev1.Pod]) (names []string) {
	for key := range pods {
		names = append(names, key.Name)
	}
	return names
}
