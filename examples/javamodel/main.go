// Program javamodel is the example with which the Java outcome of the series shows its
// parts at work, in Go: a reflector, an event-queue collection and a consumer that
// tracks what is known, put together by hand and closed in the right order. It is
// example 5 of examples/README.md.
//
// What the Java program does, and what becomes of it here:
//
//  1. It makes a map for the known objects, and an EventQueueCollection that uses the
//     map. Here [eventqueue.New] makes both: the collection has a cache of its own,
//     and nobody has to lock anything to read it.
//  2. It derives a class from ResourceTrackingEventQueueConsumer, which is given the
//     same map. The class brings the map up to date and then tells its subclass of the
//     event. Here the cache is up to date before an event is queued, and an event
//     carries its prior object by itself. A consumer is any code that ranges over the
//     queues; the one below tracks what it was told, to show that this comes to the
//     same.
//  3. It starts the collection with the consumer, which gets a thread. Here the
//     consumer is a goroutine of the program's own.
//  4. It makes a client and a Reflector that fills the collection and resyncs it every
//     ten seconds, starts the reflector and sleeps. Here resyncing is the collection's
//     business, called by whoever wants it.
//  5. It closes the reflector, the client and the collection, in this order: what fills
//     first, what is filled last. Here the same order is: end the reflector's context
//     and wait for Run, let the consumer finish by [eventqueue.Collection.Drain], then
//     close the collection, which ends the consumer's loop. A client has nothing to
//     close.
//
// Package controller does steps 3 to 5 for those who do not want to see them.
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// 1. The collection, and the known objects in it. It keeps all events, because the
	// EventQueue of the series does; the default merges them, which bounds memory.
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap], eventqueue.WithCompaction(eventqueue.KeepAll))

	// 2 and 3. The consumer.
	known := tracker{out: out, known: make(map[store.Key]*corev1.ConfigMap)}
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for queue := range configMaps.Queues(context.WithoutCancel(ctx)) {
			for event := range queue.Events() {
				known.accept(event)
			}
		}
	})

	// 4. The reflector.
	client := c.CoreV1().ConfigMaps("default")
	reflecting, stopReflector := context.WithCancel(ctx)
	defer stopReflector()
	ended := make(chan error, 1)
	go func() { ended <- reflector.New(client, configMaps).Run(reflecting) }()
	working := work(reflecting, c, client, configMaps)

	// 5. The end, in order.
	stopReflector()
	err := errors.Join(working, <-ended)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, configMaps.Drain(finishing))
	configMaps.Close()
	consuming.Wait()
	fmt.Fprintf(out, "tracked %d, in the cache %d\n", len(known.known), configMaps.Cache().Len())
	return err
}

// tracker is a consumer that keeps a map of what it was told.
type tracker struct {
	out   io.Writer
	known map[store.Key]*corev1.ConfigMap
}

func (t *tracker) accept(event eventqueue.Event[*corev1.ConfigMap]) {
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

// work resyncs every ten seconds until ctx ends. The API server in memory is given
// something to tell instead.
func work(ctx context.Context, c cluster.Cluster, client corev1client.ConfigMapInterface, configMaps *eventqueue.Collection[*corev1.ConfigMap]) error {
	if !c.Real {
		return change(ctx, client, configMaps.Resync)
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

func change(ctx context.Context, client corev1client.ConfigMapInterface, resync func()) error {
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
