package reflector

import "time"

// input is an event that step takes.
type input struct {
	kind inputKind
	at   time.Time
	// dice is a random number from 0 to below 1, which spreads the pauses.
	dice float64

	// version is the resource version of the store (started), a list (answered), an object
	// (changed) or a bookmark (marked).
	version string
	next    string // the token of the next page (answered)
	added   bool   // the object is new, or an initial event (changed)
	closing bool   // the bookmark ends the initial events (marked)
	// lasts is the watch timeout that the reflector requested, counted from now (accepted).
	lasts time.Duration
	// conflict is true if the object of a probe differs from its state at position (answered).
	conflict bool
	err      error // the failure (failed), or the store's error (stored)
}

type inputKind uint8

const (
	started  inputKind = iota + 1 // Run was called
	answered                      // the server sent a page of a list
	accepted                      // the server opened a watch
	changed                       // an event brought an object
	marked                        // an event brought a bookmark
	stored                        // the store accepted a write, or failed
	failed                        // a request failed, or an event was invalid
	ended                         // the server closed the watch
	elapsed                       // a pause ended, or the alarm fired
)

// action is an instruction that step returns.
type action struct {
	do      actionKind
	version string
	next    string
	limit   int64
	err     error
	op      Op // the operation that failed
	pause   time.Duration
	attempt int
}

type actionKind uint8

const (
	// Each of these has an outcome, which is the next input.

	askPage   actionKind = iota + 1 // list, at version or from next: answered or failed
	askWatch                        // watch from version: accepted or failed
	askStream                       // watch-list, not older than version: accepted or failed
	receive                         // changed, marked, failed, ended, or elapsed at the alarm
	replace                         // replace the store's content with the staged objects: stored
	apply                           // write the event to the store: stored
	wait                            // report err, then pause: elapsed
	delay                           // pause: elapsed

	// These have no outcome.

	discard    // empty the staging area
	keep       // stage the objects of the page
	stage      // stage the object of the event, or its deletion
	stopWatch  // close the watch
	latch      // close Synced
	report     // report err
	reportLack // report err, which means that the store lacks an object

	streamsOff  // record that the reflector uses lists instead of watch-lists because of err
	streamsBack // record that a watch-list completed
)
