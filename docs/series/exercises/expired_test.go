package exercises

// Question 1: The server is away for a minute. Meanwhile "a" changes twice, "b" is deleted, and "d" is
// created and deleted; "c" stays as it is. The server discards its history, too, so that no client can
// resume a watch. What does the handler get when the server is back, and in which order?
func expired(w *world) {
	w.create("a", "one")
	w.create("b", "one")
	w.create("c", "one")
	w.handle(w.printEvent)
	w.start()

	w.print("-- the server goes away, and comes back")
	comeBack := w.goAway()
	w.update("a", "two")
	w.update("a", "three")
	w.delete("b")
	w.create("d", "one")
	w.delete("d")
	comeBack()
}
