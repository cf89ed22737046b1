package eventqueue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

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
	// Held is how many of these [Queue.Hold] keeps out. No handler runs for them.
	Held int
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
	c.lockAndQueue()
	defer c.mu.Unlock()
	s := c.counters
	s.Keys, s.Delayed = len(c.keys), len(c.delayed)
	s.Held = min(int(c.held.Load()), s.InFlight)
	at := now()
	for _, k := range c.keys {
		for b := range k.backlogs() {
			s.Oldest = max(s.Oldest, at-b.since)
		}
	}
	return s
}

// Pending is a key with unacknowledged events: see [Collection.Pending] and [DrainError].
type Pending struct {
	Key store.Key
	// Events is the number of events that wait or are out. Events that a holder completed count
	// until the queue is settled.
	Events int
	// Age is the time since the oldest event came, even if later events were merged with it.
	Age time.Duration
	// InFlight is true while a queue of the key is handed out.
	InFlight bool
	// Failures is the number of failed attempts since the last success. Err is the last error; it
	// is nil if no attempt failed.
	Failures int
	Err      error
	// RetryIn is the rest of the back-off or of the delay of [AddAfter], or 0 if there is none.
	RetryIn time.Duration
}

// Pending returns at most limit keys with unacknowledged events, oldest first. It visits each key.
// It is meant for diagnosis, not for every event.
func (c *Collection[T]) Pending(limit int) []Pending {
	c.lockAndQueue()
	defer c.mu.Unlock()
	var all []Pending
	at := now()
	for _, k := range c.keys {
		all = insertOldest(all, k.pending(at), limit)
	}
	return all
}

// insertOldest inserts a key into the limit oldest keys, oldest first. It must not be inlined into
// generic code, because the compiler would then compile it again for each type.
//
//go:noinline
func insertOldest(all []Pending, p Pending, limit int) []Pending {
	i := len(all)
	for i > 0 && p.before(&all[i-1]) {
		i--
	}
	if i >= limit {
		return all
	}
	return slices.Insert(all[:min(len(all), limit-1)], i, p)
}

// before reports whether a key comes before another one: an older key, or of two keys with events of
// one commit, the key in flight.
func (p *Pending) before(q *Pending) bool {
	switch {
	case p.Age != q.Age:
		return p.Age > q.Age
	case p.InFlight != q.InFlight:
		return p.InFlight
	}
	return p.Key.Compare(q.Key) < 0
}

func (k *keyState[T]) pending(at time.Duration) Pending {
	p := Pending{Key: k.key, InFlight: k.out != nil, Failures: int(k.failures), Err: k.err}
	for b := range k.backlogs() {
		p.Events += len(b.events)
		p.Age = max(p.Age, at-b.since)
	}
	if k.heapIndex >= 0 {
		p.RetryIn = max(k.due-at, 0)
	}
	return p
}

// backlogs iterates over the events that are out and the events that wait.
func (k *keyState[T]) backlogs() iter.Seq[*backlog[T]] {
	return func(yield func(*backlog[T]) bool) {
		if (k.out == nil || yield(&k.out.backlog)) && k.waits() {
			yield(&k.waiting)
		}
	}
}

// TakeInfo describes a queue that the collection handed out.
type TakeInfo struct {
	Key store.Key
	// Waited is the time since the oldest event of the queue came. For an event that was handed out
	// before, it counts from the event's arrival, not from its return.
	Waited time.Duration
	// Events is the number of events in the queue. Merged is the number of other events that were
	// merged into them. Events that cancel each other are never handed out; only [Stats] counts
	// them.
	Events, Merged int
	// Attempt is one more than the number of failures of the key: see [Queue.Attempt].
	Attempt int
}

// WithObserver adds a function that the collection calls for each queue that it hands out, for
// metrics and traces. Several functions are all called. Nil adds none.
//
// The goroutine that takes the queue calls the function before the consumer gets the queue, so calls
// run concurrently. No lock is held. The function must be quick and must not panic.
func WithObserver(taken func(TakeInfo)) Option {
	return optionFunc(func(o *options) {
		first := o.observer
		switch {
		case taken == nil:
		case first == nil:
			o.observer = taken
		default:
			o.observer = func(info TakeInfo) { first(info); taken(info) }
		}
	})
}

// Synced returns a channel that is closed once every object of the first list was handed out and
// settled. An object counts as settled if it was acknowledged, failed, or was merged away by its
// deletion. For an empty list, the channel closes when the list is known. Break and return put a
// queue back unsettled. A collection that is closed before never becomes synced.
func (c *Collection[T]) Synced() <-chan struct{} { return c.synced }

// markListedLocked records that the first list is known. From now on, Synced waits for all keys
// that are not settled. This includes keys whose events came before the list and that the list
// found unchanged.
func (c *Collection[T]) markListedLocked() {
	for _, k := range c.keys {
		if k.heapIndex >= 0 {
			continue // the key failed, which settles it, or only AddAfter delays it
		}
		switch {
		case k.waits():
			if events := k.waiting.events; events[len(events)-1].Type == Deletion {
				continue // not in the list
			}
			k.waiting.initial = true
		case k.out != nil:
			k.out.initial = true
		}
		c.unsynced++
	}
	c.initialSettledLocked()
}

// initialSettledLocked records that the list itself is known, or that one of its keys is settled.
func (c *Collection[T]) initialSettledLocked() {
	if c.unsynced--; c.unsynced == 0 {
		close(c.synced)
		c.bypass.Add(-1)
	}
}

// Drain waits until no queue is ready and no queue is out, while consumers settle queues. It does
// not wait for failed keys in back-off, or for keys that [AddAfter] delays.
//
// Drain returns nil if no event is left, except those of keys that only [AddAfter] delays. Otherwise,
// also when ctx ended first, it returns a [*DrainError] that lists the remaining events, with those of
// failed keys in back-off. Stop the writer before you call Drain, because Drain also waits for events
// that come meanwhile. A closed collection holds no events.
//
// A handler or a loop's body must not call Drain with a context that does not end, because its own
// queue is out.
func (c *Collection[T]) Drain(ctx context.Context) error {
	c.bypass.Add(1) // before lock, so that later commits buffer nothing
	defer c.bypass.Add(-1)
	c.lockAndQueue()
	defer c.mu.Unlock()
	for !c.idleLocked() {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		select {
		case <-idle:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return c.leftLocked(context.Cause(ctx))
		}
	}
	return c.leftLocked(nil)
}

// wakeDrainersLocked wakes the Drain calls if no queue is ready or out.
func (c *Collection[T]) wakeDrainersLocked() {
	if c.idle != nil && c.idleLocked() {
		close(c.idle)
		c.idle = nil
	}
}

// Left returns a [*DrainError] with this cause for the keys whose events are left, or nil if there is
// none. Keys that only [AddAfter] delays do not count. Call it when the writer and the consumers have
// ended; [Collection.Drain] returns the same, but waits for consumers first.
func (c *Collection[T]) Left(cause error) error {
	c.lockAndQueue()
	defer c.mu.Unlock()
	return c.leftLocked(cause)
}

func (c *Collection[T]) leftLocked(cause error) error {
	if c.IsClosed() {
		return nil
	}
	e := &DrainError{Cause: cause, Pending: make([]Pending, 0, len(c.keys))}
	at := now()
	for _, k := range c.keys {
		if k.out != nil || k.heapIndex < 0 || k.failures > 0 { // else only AddAfter delays it
			e.Pending = append(e.Pending, k.pending(at))
		}
	}
	if len(e.Pending) == 0 {
		return nil
	}
	e.sort()
	return e
}

// sort orders the remaining keys. It must not be inlined into generic code, because the compiler
// would then compile it again for each type.
//
//go:noinline
func (e *DrainError) sort() {
	slices.SortFunc(e.Pending, func(a, b Pending) int { return a.Key.Compare(b.Key) })
}

// DrainError lists the keys that remained when [Collection.Drain] ended, or that [Collection.Left] found.
type DrainError struct {
	// Pending holds at least one element, in the order of keys.
	Pending []Pending
	// Cause is the cause of the context that ended draining, or what was passed to Left. It is nil if
	// Drain waited long enough, and only failed keys remained. After a deadline, failed keys have it as
	// well, because a handler may have failed as its context ended.
	Cause error
}

// Error lists the first few keys and the number of the others.
func (e *DrainError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%d key(s) left undone", len(e.Pending))
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	for i, p := range e.Pending {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Pending)-most)
			break
		}
		fmt.Fprintf(&b, "; %q: %d event(s)", p.Key, p.Events)
		if p.InFlight {
			b.WriteString(", handler still running")
		}
		if p.Err != nil {
			fmt.Fprintf(&b, ", failed: %v", p.Err)
		}
	}
	return b.String()
}

// Unwrap returns Cause and the failures of the keys.
func (e *DrainError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	for _, p := range e.Pending {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	return errs
}
