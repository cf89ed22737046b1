// Program eventqueues puts a reflector, a collection of event queues and a consumer together by hand, and
// ends them in order. The consumer prints the events of ConfigMaps: additions, modifications with the prior
// object, resyncs and deletions.
//
// It is the Go form of the program with which the author of the series' Java outcome shows its parts. Step
// by step, with the numbers of the code:
//
//  1. The Java program makes a map for the known objects, and an EventQueueCollection that uses the map.
//     Here [eventqueue.New] makes both. The collection has its own cache, and readers of the cache need no
//     lock.
//  2. The Java program derives a consumer from ResourceTrackingEventQueueConsumer, which updates the same
//     map before it passes an event on. Here the cache is current before an event is queued, and an event
//     carries its prior object. So a consumer is any code that ranges over the queues. This one keeps its
//     own map, only to show that it ends equal to the cache.
//  3. The Java program starts the collection with the consumer, which gets a thread. Here the consumer is a
//     goroutine of this program.
//  4. The Java program makes a client and a Reflector that fills the collection and resyncs it every ten
//     seconds. Here the collection resyncs when the program calls [eventqueue.Collection.Resync].
//  5. The Java program closes the reflector, the client and the collection, in this order. So does this one:
//     it ends the reflector's context and waits for Run, lets the consumer finish with
//     [eventqueue.Collection.Drain], and closes the collection, which ends the consumer's loop. A client
//     needs no closing.
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
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// 1. The collection, and the known objects in it. It is the store that the reflector fills. It keeps all
	// events, because the EventQueue of the series does; the default merges them, which bounds memory.
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap], eventqueue.WithCompaction(eventqueue.KeepAll))

	// 2 and 3. The consumer gets one queue at a time: all events of one ConfigMap. It works until Close, so
	// that it can finish after the reflector.
	known := make(map[store.Key]*corev1.ConfigMap)
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for queue := range configMaps.Queues(context.WithoutCancel(ctx)) {
			for event := range queue.Events() {
				consume(out, known, event)
			}
		} // The end of the body acknowledged the queue.
	})

	// 4. The reflector.
	reflecting, stopReflector := context.WithCancel(ctx)
	defer stopReflector()
	reflected := make(chan error, 1)
	go func() { reflected <- reflector.New(c.CoreV1().ConfigMaps("default"), configMaps).Run(reflecting) }()
	err := demo(reflecting, c, configMaps)

	// 5. The end, in order.
	stopReflector()
	err = errors.Join(err, <-reflected)
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, configMaps.Drain(finishing))
	configMaps.Close()
	consuming.Wait()
	fmt.Fprintf(out, "consumed %d, in the cache %d\n", len(known), configMaps.Cache().Len())
	return err
}

// consume prints an event, and notes its object in known.
func consume(out io.Writer, known map[store.Key]*corev1.ConfigMap, event eventqueue.Event[*corev1.ConfigMap]) {
	known[event.Key] = event.Object
	switch {
	case event.Origin == eventqueue.Resync:
		fmt.Fprintf(out, "%s is still there with %v\n", event.Key, event.Object.Data)
	case event.Type == eventqueue.Addition:
		fmt.Fprintf(out, "%s appeared with %v\n", event.Key, event.Object.Data)
	case event.Type == eventqueue.Modification:
		fmt.Fprintf(out, "%s changed from %v to %v\n", event.Key, event.Prior.Data, event.Object.Data)
	case event.Type == eventqueue.Deletion:
		fmt.Fprintf(out, "%s is gone; it had %v\n", event.Key, event.Object.Data)
		delete(known, event.Key)
	}
}
