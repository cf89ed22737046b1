package exercises

import (
	"errors"
	"time"
)

// Question 4: The handler fails on "a" until its text is "three", and on "c" once. The library retries
// after at most an hour. "a" and "b" are created; a second later "a" changes to "two", and another
// second later to "three". After the hour "c" is created, and an hour later the program ends. Does "b"
// wait? Which events of "a" and "c" does the handler get, and when?
func failing(w *world) {
	failed := false
	w.handle(func(e event) error {
		w.print("%v", e)
		if e.name == "a" && e.now != "three" || e.name == "c" && !failed {
			failed = e.name == "c"
			w.print("  fails")
			return errors.New("not now")
		}
		return nil
	})
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
	w.print("-- c is created")
	w.create("c", "one")
	settle()
	w.print("-- another hour ends")
	<-time.After(time.Hour)
}
