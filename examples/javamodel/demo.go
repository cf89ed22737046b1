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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
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

// change changes ConfigMaps on an API server in memory, and resyncs. On a real one it only resyncs,
// every ten seconds until ctx ends.
func change(ctx context.Context, c cluster.Cluster, client corev1client.ConfigMapInterface, configMaps *eventqueue.Collection[*ConfigMap]) error {
	if c.Memory != nil {
		return sing(ctx, client, configMaps.Resync)
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

func sing(ctx context.Context, client corev1client.ConfigMapInterface, resync func()) error {
	songs := func(name, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"first": text}}
	}
	create := func(name string) func() error {
		return func() error {
			_, err := client.Create(ctx, songs(name, "do"), metav1.CreateOptions{})
			return err
		}
	}
	update := func() error {
		_, err := client.Update(ctx, songs("high", "re"), metav1.UpdateOptions{})
		return err
	}
	again := func() error { resync(); return nil }
	remove := func() error { return client.Delete(ctx, "high", metav1.DeleteOptions{}) }
	return cluster.Steps(ctx, create("high"), update, again, create("low"), remove)
}
