package protocol

import "time"

// Input is an event that [State.Step] takes.
type Input struct {
	Kind InputKind
	At   time.Time
	// Dice is a random number from 0 to below 1, which spreads the pauses.
	Dice float64

	// Version is the resource version of the store (Started), a list (Answered), an object
	// (Changed) or a bookmark (Marked).
	Version string
	Next    string // the token of the next page (Answered)
	Added   bool   // the object is new, or an initial event (Changed)
	Changes int    // the number of objects (Changed)
	Closing bool   // the bookmark ends the initial events (Marked)
	// Lasts is the watch timeout that the reflector requested, counted from now (Accepted).
	Lasts time.Duration
	// Consistent is true if the server answers consistent lists in pages from its watch cache (VersionKnown).
	Consistent bool
	// Unanswered is true if the server did not answer, so that the client asks again (VersionKnown).
	Unanswered bool
	// Conflict is true if the object of a probe differs from its state at the position (Answered).
	Conflict bool
	Err      error // the failure (Failed, Ended), or the store's error (Stored)
}

// InputKind is the kind of an [Input].
type InputKind uint8

// The kinds of inputs.
const (
	Started      InputKind = iota + 1 // Run was called
	Answered                          // the server sent a page of a list
	Accepted                          // the server opened a watch
	VersionKnown                      // the client answered AskVersion, if it could
	Changed                           // an event brought an object
	Marked                            // an event brought a bookmark
	Stored                            // a write to the store ended; Err says why it failed
	Failed                            // a request failed, or an event was invalid
	Ended                             // the watch ended: the server closed it, or the connection broke
	Elapsed                           // a pause ended, or the alarm fired
)
