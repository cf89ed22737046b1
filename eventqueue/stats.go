package eventqueue

import "time"

// Stats is the state of a collection. The first group of fields is the state at one moment. The
// second group counts since the collection was created.
type Stats struct {
	// Keys is the number of keys that wait or are out.
	Keys int
	// Waiting is the number of keys with events that were not handed out, including delayed keys.
	Waiting int
	// Delayed is the number of keys that wait for a back-off or for the delay of [AddAfter].
	Delayed int
	// InFlight is the number of queues that were handed out and not settled yet.
	InFlight int
	// Events is the number of events that wait or are out.
	Events int
	// Oldest is the time since the oldest unacknowledged event came, even if later events were
	// merged with it; 0 if there is none.
	Oldest time.Duration

	// Merged is the number of events that the collection merged into others, that cancelled each
	// other, or that added nothing, like a resync of an object with waiting events.
	Merged uint64
	// Dropped is the number of deletions that no handler receives. A handler failed on the deleted
	// objects, and each was re-created and failed again.
	Dropped uint64
	// Retries is the number of queues that were handed out again after a failure.
	Retries uint64
	// Panics is the number of queues whose handler ended by a panic or Goexit.
	Panics uint64
	// GivenUp is the number of queues that ended with a [Permanent] error.
	GivenUp uint64
	// PredicateFailures is the number of times that the predicate of [FollowFiltered] or
	// [Collection.KeepIf] panicked. PredicateErr wraps the last [*PanicError], or is nil.
	PredicateFailures uint64
	PredicateErr      error
}

// Stats returns the collection's statistics. It visits each key that waits or is out.
func (c *Collection[T]) Stats() Stats {
	c.lock()
	defer c.mu.Unlock()
	n := &c.counters
	s := Stats{
		Keys: c.keys.len, Waiting: n.waiting, Delayed: len(c.delayed), InFlight: n.out, Events: n.events,
		Merged: n.merged, Dropped: n.dropped, Retries: n.retries, Panics: n.panics, GivenUp: n.givenUp,
		PredicateFailures: n.predicateFailures, PredicateErr: n.predicateErr,
	}
	at := now()
	for k := range c.keys.all() {
		for b := range k.backlogs() {
			s.Oldest = max(s.Oldest, at-b.since)
		}
	}
	return s
}

// counters holds the running counts of a collection. Guarded by Collection.mu.
type counters struct {
	waiting, out, events int

	merged, dropped, retries, panics, givenUp, predicateFailures uint64

	predicateErr error
}

// close resets the counts of the current state and keeps the totals.
func (n *counters) close() { n.waiting, n.out, n.events = 0, 0, 0 }
