package protocol

import "time"

// Action is an instruction that [State.Step] returns.
type Action struct {
	Do      ActionKind
	Version string
	Next    string // the token of the page
	Limit   int64
	Err     error
	Op      Op // the operation that failed
	Pause   time.Duration
	Attempt int
	// Passing is true for a Wait after a failure that may pass while the server starts, so that no program
	// ends because of it.
	Passing bool
}

// ActionKind is the kind of an [Action].
type ActionKind uint8

// The kinds of actions. Each kind up to Delay has an outcome, which is the next input.
const (
	AskPage      ActionKind = iota + 1 // list, at Version or from Next: Answered or Failed
	AskWatch                           // watch from Version: Accepted or Failed
	AskWatchList                       // watch-list, not older than Version: Accepted or Failed
	AskVersion                         // ask for the server's Kubernetes version: VersionKnown
	Receive                            // wait: Changed, Marked, Failed, Ended, or Elapsed at the alarm
	Replace                            // replace the store's content with the staged objects: Stored
	Apply                              // write the events to the store: Stored
	Wait                               // report Err, then pause: Elapsed
	Delay                              // pause: Elapsed

	Discard        // empty the staging area
	Stage          // stage the objects of the events, or their deletions
	StopWatch      // close the watch, because of Err if that is not nil
	MarkSynced     // record that the store has the objects: after a list, or if a watch from its version is accepted
	Report         // report Err
	ReportRejected // report Err, which means that the store lacks an object
	WatchListsOff  // record that the reflector uses lists instead of watch-lists because of Err
	WatchListsBack // record that a watch-list completed
)

// Waits reports whether an action waits for the server, for the watch or for a time. No such action begins
// after the end of Run's context.
func (k ActionKind) Waits() bool { return k <= Receive || k == Wait || k == Delay }

// Op is an operation that failed.
type Op string

// The operations.
const (
	OpList      Op = "list"
	OpWatch     Op = "watch"
	OpWatchList Op = "watch-list"
	OpStore     Op = "store"
)
