// Program configmaps lets a reflector fill an event-queue collection with ConfigMaps. It prints the
// events: additions, modifications with the prior state, and deletions.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// The collection is the store that the reflector fills.
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
	r := reflector.New(c.CoreV1().ConfigMaps("default"), configMaps)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		defer stop()
		result <- r.Run(ctx)
	}()

	// One queue at a time: all events of one ConfigMap.
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
	return <-result
}
