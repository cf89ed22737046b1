package main

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo changes ConfigMaps and resyncs. On a cluster it only resyncs, every ten seconds.
func demo(ctx context.Context, c cluster.Cluster, configMaps *eventqueue.Collection[*corev1.ConfigMap]) error {
	if c.Memory != nil {
		song := func(name, text string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"first": text}}
		}
		return cluster.Steps(ctx,
			c.Create(song("high", "do")),
			c.Update(song("high", "re")),
			func() error { configMaps.Resync(); return nil },
			c.Create(song("low", "do")),
			c.Delete(song("high", "")),
		)
	}
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			configMaps.Resync()
		case <-ctx.Done():
			return nil
		}
	}
}
