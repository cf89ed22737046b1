package exercises

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	corev1 "k8s.io/api/core/v1"
)

// Question 2: While the handler works on the addition of "a", "a" changes twice. While it works on
// the addition of "b", "b" is deleted and created again under the same name. What does the handler
// get afterwards?
func recreated(w *world) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.configMaps.Handle(handler(func(event eventqueue.Event[*corev1.ConfigMap]) error {
		w.printEvent(event)
		begun <- struct{}{}
		<-goOn
		return nil
	}))

	w.start()
	w.create("a", "one")
	<-begun
	w.update("a", "two")
	w.update("a", "three")
	settle()
	w.print("-- the handler returns")
	goOn <- struct{}{}
	<-begun
	goOn <- struct{}{}

	w.create("b", "one")
	<-begun
	w.delete("b")
	w.create("b", "two")
	settle()
	w.print("-- the handler returns")
	close(goOn)
	<-begun
	<-begun
}
