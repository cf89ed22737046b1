package exercises

// Question 2: While the handler works on a change of "a", "a" changes twice more and "b" is deleted.
// Then the server goes away, as in question 1, and "b" is created again. The handler returns when the
// server is back. What does it get afterwards, and which objects are known?
func recreated(w *world) {
	w.create("a", "one")
	w.create("b", "one")
	goOn := make(chan struct{})
	w.handle(func(e event) error {
		w.print("%v", e)
		if e.name == "a" && e.now == "two" {
			<-goOn
		}
		return nil
	})
	w.start()

	w.update("a", "two")
	settle()
	w.update("a", "three")
	w.update("a", "four")
	w.delete("b")
	settle()
	comeBack := w.goAway()
	w.create("b", "five")
	comeBack()
	w.print("-- the handler returns")
	close(goOn)
	settle()
	w.print("known: %v", w.known())
}
