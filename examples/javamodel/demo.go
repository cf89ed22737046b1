package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigMap is the resource of the example.
type ConfigMap = corev1.ConfigMap

// tracker is a consumer that keeps a map of the objects in its events.
type tracker struct {
	out   io.Writer
	known map[store.Key]*ConfigMap
}

func (t *tracker) accept(event eventqueue.Event[*ConfigMap]) {
	if event.Type == eventqueue.Deletion {
		delete(t.known, event.Key)
	} else {
		t.known[event.Key] = event.Object
	}
	switch {
	case event.Origin == eventqueue.Resync:
		fmt.Fprintf(t.out, "%s is still there with %v\n", event.Key, event.Object.Data)
	case event.PriorKnown:
		fmt.Fprintf(t.out, "%v of %s with %v, before: %v\n", event.Type, event.Key, event.Object.Data, event.Prior.Data)
	default:
		fmt.Fprintf(t.out, "%v of %s with %v\n", event.Type, event.Key, event.Object.Data)
	}
}

// demo changes ConfigMaps and resyncs. On a cluster it only resyncs, every ten seconds.
func demo(ctx context.Context, c cluster.Cluster, configMaps *eventqueue.Collection[*ConfigMap]) error {
	if c.Memory != nil {
		song := func(name, text string) *ConfigMap {
			return &ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"first": text}}
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
