package eventqueue

import (
	"iter"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/store"
)

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
	c.lock()
	defer c.mu.Unlock()
	var all []Pending
	at := now()
	for k := range c.keys.all() {
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
