package exercises

import "github.com/kubereflector/kubereflector/reflector/reflectortest"

// Question 3: "a" is created, "b" is created and changed, "c" is created and deleted. Then a second
// handler joins, and "a" changes. What does the second handler get, and how many requests does it
// cost?
func late(w *world) {
	w.handle(func(event) error { return nil })
	w.start()
	w.create("a", "one")
	w.create("b", "one")
	w.update("b", "two")
	w.create("c", "one")
	w.delete("c")
	settle()

	w.server.ForgetRequests()
	w.handle(w.printEvent)
	settle()
	w.print("-- a changes")
	w.update("a", "two")
	settle()
	w.print("requests: %d", len(w.server.Requests(reflectortest.ForResource("configmaps"))))
}
