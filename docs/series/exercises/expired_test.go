package exercises

import (
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
)

// Question 1: The watch stalls. Meanwhile "a" changes twice, "b" is deleted, and "c" is created and
// deleted. The server then discards its history, so it ends the watch with a 410. What does the
// handler get after that, and in which order?
func expired(w *world) {
	w.create("a", "one")
	w.create("b", "one")
	// The first watch is a watch-list. It brings "a", "b" and the end of the list, and then nothing
	// until goOn is closed.
	goOn := make(chan struct{})
	w.server.Inject(reflectortest.StallAfterEvents(3, goOn).On("watch", "configmaps").Times(1))
	w.configMaps.Handle(handler(func(event eventqueue.Event[*corev1.ConfigMap]) error {
		w.printEvent(event)
		return nil
	}))
	w.start()
	settle()

	w.update("a", "two")
	w.update("a", "three")
	w.delete("b")
	w.create("c", "one")
	w.delete("c")
	must(w.server.Compact(w.server.ResourceVersion()))
	w.print("-- the watch ends with a 410")
	close(goOn)
	<-time.After(time.Minute)
}
