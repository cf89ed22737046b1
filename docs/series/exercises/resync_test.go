package exercises

// Question 5: The consumer of a collection has handled "a", "b" and "c". Then "a" changes, and "b" is
// deleted. The consumer takes the queue of "a", and while it works, the collection resyncs. What does
// the consumer get?
func resync(w *world) {
	consumer := func(e event) { w.print("%v", e) }
	takeAll := func() {
		for finish := w.take(consumer); finish != nil; finish = w.take(consumer) {
			finish()
		}
	}
	w.add("a", "one")
	w.add("b", "one")
	w.add("c", "one")
	takeAll()

	w.change("a", "two")
	w.remove("b")
	finish := w.take(consumer)
	w.resync()
	w.print("-- after the resync")
	finish()
	takeAll()
}
