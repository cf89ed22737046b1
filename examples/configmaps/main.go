// Program configmaps lets a reflector fill an event-queue collection with the
// ConfigMaps of the namespace default, and prints what happens to them: additions,
// modifications with the prior state, and deletions.
package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := c.CoreV1().ConfigMaps("default")

	// The collection is the store that the reflector fills.
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
	r := reflector.New(client, configMaps)

	var running sync.WaitGroup
	defer running.Wait()
	var reflecting, changing error
	running.Go(func() {
		defer stop()
		reflecting = r.Run(ctx)
	})
	if c.Memory != nil {
		running.Go(func() {
			defer stop()
			changing = change(ctx, client)
		})
	}

	// One queue at a time: everything that happened to one ConfigMap.
	for queue := range configMaps.Queues(ctx) {
		for event := range queue.Events() {
			switch event.Type {
			case eventqueue.Addition:
				fmt.Fprintf(out, "%s appeared with %v\n", event.Key, event.Object.Data)
			case eventqueue.Modification:
				fmt.Fprintf(out, "%s changed from %v to %v\n", event.Key, event.Prior.Data, event.Object.Data)
			case eventqueue.Deletion:
				fmt.Fprintf(out, "%s is gone; it had %v\n", event.Key, event.Object.Data)
			}
		}
	} // The end of the body acknowledged the queue.

	running.Wait()
	if reflecting != nil {
		return reflecting
	}
	return changing
}

// change gives the API server in memory something to tell.
func change(ctx context.Context, client corev1client.ConfigMapInterface) error {
	colors := func(color string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors"}, Data: map[string]string{"sky": color}}
	}
	create := func() error {
		_, err := client.Create(ctx, colors("blue"), metav1.CreateOptions{})
		return err
	}
	update := func() error {
		_, err := client.Update(ctx, colors("grey"), metav1.UpdateOptions{})
		return err
	}
	remove := func() error { return client.Delete(ctx, "colors", metav1.DeleteOptions{}) }
	return cluster.Steps(ctx, create, update, remove)
}
