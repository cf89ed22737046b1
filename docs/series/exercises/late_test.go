package exercises

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
)

// Question 3: "a" is created, "b" is created and changed, "c" is created and deleted. Then a second
// subscriber joins, and "a" changes. What does the second subscriber get, and how many requests
// does it cost?
func late(w *world) {
	w.start()
	w.create("a", "one")
	w.create("b", "one")
	w.update("b", "two")
	w.create("c", "one")
	w.delete("c")
	settle()

	w.server.ForgetRequests()
	w.configMaps.Handle(handler(func(event eventqueue.Event[*corev1.ConfigMap]) error {
		w.printEvent(event)
		return nil
	}))
	settle()
	w.print("-- a changes")
	w.update("a", "two")
	settle()
	w.print("requests: %d", len(w.server.Requests(reflectortest.ForResource("configmaps"))))
}
