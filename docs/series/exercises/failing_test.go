package exercises

import (
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
)

// Question 4: The handler fails on "a" until its text is "three", and the back-off is an hour. "b"
// is created at the same time. A second later "a" changes to "two", another second later to "three",
// and then the hour ends. Does "b" wait? Which events of "a" does the handler get, and when?
func failing(w *world) {
	w.configMaps.Handle(handler(func(event eventqueue.Event[*corev1.ConfigMap]) error {
		w.printEvent(event)
		if event.Key.Name == "a" && event.Object.Data["text"] != "three" {
			w.print("  fails")
			return errors.New("not three")
		}
		return nil
	}), informer.WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
	w.start()
	w.create("a", "one")
	w.create("b", "one")
	settle()
	w.print("-- a changes to two")
	w.update("a", "two")
	settle()
	w.print("-- a changes to three")
	w.update("a", "three")
	settle()
	w.print("-- the hour ends")
	<-time.After(time.Hour)
}
