// Program javamodel rebuilds in Go the example that shows the parts of the series' Java outcome. It
// puts together a reflector, an event-queue collection and a consumer, and closes them in the right
// order. It is example 5 of examples/README.md.
//
// The list compares each step of the Java program with this program:
//
//  1. The Java program makes a map for the known objects, and an EventQueueCollection that
//     uses the map. Here [eventqueue.New] makes both. The collection has its own cache, and
//     readers of the cache need no lock.
//  2. The Java program derives a consumer from ResourceTrackingEventQueueConsumer, which gets
//     the same map. ResourceTrackingEventQueueConsumer updates the map and then passes the event
//     to the derived class.
//     Here the cache is current before an event is queued, and an event carries its prior
//     object. A consumer is any code that ranges over the queues. The consumer below keeps
//     its own map of received events, to show that the map matches the cache.
//  3. The Java program starts the collection with the consumer, which gets a thread. Here
//     the consumer is a goroutine of this program.
//  4. The Java program makes a client and a Reflector that fills the collection and resyncs
//     it every ten seconds. It then starts the reflector and sleeps. Here the collection
//     resyncs when the program calls [eventqueue.Collection.Resync].
//  5. The Java program closes the reflector, the client and the collection, in this order.
//     Here the order is the same: end the reflector's context and wait for Run. Let the
//     consumer finish with [eventqueue.Collection.Drain]. Then close the collection, which
//     ends the consumer's loop. A client needs no closing.
//
// Package controller does steps 3 to 5 by itself.
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
	consumer := tracker{out: out, known: make(map[store.Key]*corev1.ConfigMap)}
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for queue := range configMaps.Queues(context.WithoutCancel(ctx)) { // until Close: the consumer finishes after the reflector
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
	ended := make(chan error, 1)
	go func() { ended <- reflector.New(client, configMaps).Run(reflecting) }()
	workErr := work(reflecting, c, client, configMaps)

	// 5. The end, in order.
	stopReflector()
	err := errors.Join(workErr, <-ended)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, configMaps.Drain(finishing))
	configMaps.Close()
	consuming.Wait()
	fmt.Fprintf(out, "tracked %d, in the cache %d\n", len(consumer.known), configMaps.Cache().Len())
	return err
}

// tracker is a consumer that keeps a map of the objects in its events.
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
