package eventqueue

import "time"

// Stats says how a collection is doing. The first group is the state at one moment;
// the second one counts from the collection's beginning.
type Stats struct {
	// Keys is the number of keys that wait or are out.
	Keys int
	// Waiting is the number of keys with events that were not handed out, among
	// them those in back-off.
	Waiting int
	// Delayed is the number of keys whose back-off runs.
	Delayed int
	// Out is the number of queues that were handed out and not settled yet.
	Out int
	// Events is the number of events that wait or are out.
	Events int
	// Oldest is the time since the oldest event that was not acknowledged came, be
	// it merged with later ones; 0 if there is none.
	Oldest time.Duration

	// Merged is the number of events that were merged into others, cancelled each
	// other, or said nothing new, as a resync does when something waits.
	Merged uint64
	// Dropped is the number of deletions that no handler will hear of: of objects
	// that it failed on, and that were re-created and failed on again.
	Dropped uint64
	// Retries is the number of queues that were handed out again after a failure.
	Retries uint64
	// Panics is the number of queues whose handler ended by a panic or Goexit.
	Panics uint64
	// GivenUp is the number of queues that ended with a [Permanent] error.
	GivenUp uint64
	// CompactionFailures is the number of times that a [Compactor] failed;
	// CompactionErr is the last one, a [*CompactionError], or nil.
	CompactionFailures uint64
	CompactionErr      error
	// FilterFailures is the number of times that the predicate of [FollowFiltered]
	// panicked; FilterErr is the last one, a [*FilterError], or nil.
	FilterFailures uint64
	FilterErr      error
}

// Stats returns the collection's statistics. It takes the same short time however
// much there is to count.
func (c *Collection[T]) Stats() Stats {
	c.lock()
	defer c.mu.Unlock()
	n := &c.counters
	s := Stats{
		Keys: c.keys.len, Waiting: n.waiting, Delayed: len(c.delayed), Out: n.out, Events: n.events,
		Merged: n.merged, Dropped: n.dropped, Retries: n.retries, Panics: n.panics, GivenUp: n.givenUp,
		CompactionFailures: n.compactionFailures, CompactionErr: n.compactionErr,
		FilterFailures: n.filterFailures, FilterErr: n.filterErr,
	}
	if c.ages.oldest != nil {
		s.Oldest = now() - c.ages.oldest.since
	}
	return s
}

// counters is what a collection counts as it goes. Guarded by Collection.mu.
type counters struct {
	waiting, out, events int

	merged, dropped, retries, panics, givenUp, compactionFailures, filterFailures uint64

	compactionErr, filterErr error
}

// close forgets what is there, and keeps what has been.
func (n *counters) close() { n.waiting, n.out, n.events = 0, 0, 0 }
