package exercises

import (
	"context"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// Question 5: The consumer of a collection has acknowledged "a", "b" and "c". Then "b" changes, and
// "c" is deleted. Before the consumer gets their events, the collection resyncs. What does the
// consumer get?
func resync(w *world) {
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
	defer configMaps.Close()
	for _, name := range []string{"a", "b", "c"} {
		must(configMaps.Add(configMap(name, "one")))
	}
	takeAll := func() {
		for configMaps.Len() > 0 {
			queue, err := configMaps.Take(context.Background())
			must(err)
			for event := range queue.Events() {
				w.printEvent(event)
			}
			queue.Done()
		}
	}
	takeAll()

	must(configMaps.Update(configMap("b", "two")))
	must(configMaps.Delete(configMap("c", "one")))
	configMaps.Resync()
	w.print("-- after the resync")
	takeAll()
}
