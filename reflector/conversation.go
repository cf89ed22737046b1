package reflector

import "time"

// input is something that happened, as step takes it.
type input struct {
	kind inputKind
	at   time.Time
	// dice is a random number from 0 to below 1, for pauses.
	dice float64

	// version is the resource version of the store (started), of a list
	// (answered), of an object (changed) or of a bookmark (marked).
	version string
	next    string // the token of the next page (answered)
	added   bool   // the object is new, or one of the first (changed)
	closing bool   // the bookmark ends the initial events (marked)
	// lasts is how long the server was asked to let the watch last, counted from now (accepted).
	lasts time.Duration
	// conflict is true if the object of a probe is not what it was at position (answered).
	conflict bool
	err      error // why (failed), or what the store said (stored)
}

type inputKind uint8

const (
	started  inputKind = iota + 1 // Run was called
	answered                      // a page of a list came
	accepted                      // a watch was opened
	changed                       // an event brought an object
	marked                        // an event brought a bookmark
	stored                        // the store took something, or did not
	failed                        // a request failed, or an event was bad
	ended                         // the server closed the watch
	elapsed                       // a pause, or the time until the alarm, is over
)

// action is something to do, as step says.
type action struct {
	do      actionKind
	version string
	next    string
	limit   int64
	err     error
	op      Op // what err is about
	pause   time.Duration
	attempt int
}

type actionKind uint8

const (
	// These have an outcome, which is the next input.

	askPage   actionKind = iota + 1 // list, at version or from next: answered or failed
	askWatch                        // watch from version: accepted or failed
	askStream                       // watch-list, not older than version: accepted or failed
	receive                         // changed, marked, failed, ended, or elapsed at the alarm
	replace                         // give the store what is staged: stored
	apply                           // give the store the event: stored
	wait                            // report err, then pause: elapsed
	delay                           // pause: elapsed

	// These have none.

	discard    // stage nothing
	keep       // stage the objects of the page
	stage      // stage the object of the event, or its deletion
	stopWatch  // close the watch
	latch      // Synced is closed
	report     // tell of err
	reportLack // tell of err, which leaves something out of the store

	streamsOff  // note that err is why lists are asked for instead of watch-lists
	streamsBack // note that a watch-list came to its end
)
