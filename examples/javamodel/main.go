package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// 1. The collection, and the known objects in it. It keeps all events, because the
	// EventQueue of the series does; the default merges them, which bounds memory.
	configMaps := eventqueue.New(store.ObjectKey[*ConfigMap], eventqueue.WithCompaction(eventqueue.KeepAll))

	// 2 and 3. The consumer. It works until Close, so that it can finish after the reflector.
	consumer := tracker{out: out, known: make(map[store.Key]*ConfigMap)}
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for queue := range configMaps.Queues(context.WithoutCancel(ctx)) {
			for event := range queue.Events() {
				consumer.accept(event)
			}
		}
	})

	// 4. The reflector: configMaps is the Store of part 1, and New makes the
	// KubernetesResourceReflector.
	client := c.CoreV1().ConfigMaps("default")
	reflecting, stopReflector := context.WithCancel(ctx)
	defer stopReflector()
	reflected := make(chan error, 1)
	go func() { reflected <- reflector.New(client, configMaps).Run(reflecting) }()
	err := demo(reflecting, c, configMaps)

	// 5. The end, in order.
	stopReflector()
	err = errors.Join(err, <-reflected)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, configMaps.Drain(finishing))
	configMaps.Close()
	consuming.Wait()
	fmt.Fprintf(out, "tracked %d, in the cache %d\n", len(consumer.known), configMaps.Cache().Len())
	return err
}
