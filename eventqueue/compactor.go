package eventqueue

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Compactor is a compaction of a user's own. It gets a copy of the waiting events of one object, at
// least two, oldest first. It returns the events that must reach the handler one by one, in the
// same order. The collection merges each other event into the next one, by the table in the package
// documentation.
//
// Some events stay whatever the compactor returns: the last state, and the deletion of an object
// that the handler may know. Among deletions of objects that were never acknowledged, the
// collection keeps the newest and the ones that the compactor returned.
//
// The collection calls the compactor after each event that joins others, so its cost counts for
// each such event. It runs under the locks of the cache's writer and of the collection: it must be
// quick and must not call either. Changes to the events themselves are ignored. It must not call
// [runtime.Goexit], which would end the goroutine that writes or settles.
type Compactor[T any] func(events []Event[T]) (keep []Event[T])

// ErrCompaction reports a wrong answer of a [Compactor]: an event that was not in its argument, an
// event twice, or events in another order.
var ErrCompaction = errors.New("compactor must return some of the events that it was given, in their order")

// CompactionError reports a failed [Compactor]. The collection then keeps the events that
// [WithCompaction] selects.
type CompactionError struct {
	Key store.Key
	// Err is [ErrCompaction], or a [*PanicError].
	Err error
}

// Error names the key and the failure.
func (e *CompactionError) Error() string {
	return fmt.Sprintf("compacting the events of %q failed: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *CompactionError) Unwrap() error { return e.Err }

// CompactBy sets a compaction of your own, for the waiting events and all later ones. The
// collection applies it after the [WithCompaction] setting, which can still bound memory. A
// compactor that panics or returns a wrong answer does no harm; [Collection.Stats] reports it. Nil
// removes the compactor.
func (c *Collection[T]) CompactBy(compactor Compactor[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	c.compactor = compactor
	c.regulateLocked()
	c.sortInLocked()
	for _, l := range slices.Collect(c.keys.all()) { // compactLocked may remove some lines
		c.compactLocked(l)
	}
}

// compactLocked lets the user's compactor select the waiting events of a key to keep.
func (c *Collection[T]) compactLocked(l *line[T]) {
	q := l.waiting
	if c.compactor == nil || q == nil || len(q.events) < 2 {
		return
	}
	drop, err := consult(c.compactor, q.events)
	if err != nil {
		c.counters.compactionFailures++
		c.counters.compactionErr = &CompactionError{Key: l.key, Err: err}
		return
	}
	before := len(q.events)
	events, dropped := trim(fold(q.events, drop))
	c.resizedLocked(l, q, events, before, dropped)
}

// consult asks a compactor for the events to drop.
func consult[T any](compactor Compactor[T], events []record[T]) (drop []bool, err error) {
	key := events[0].Key
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: key, Value: value, Stack: debug.Stack()}
		}
	}()
	// A mark has 16 bits. Older events beyond that number stay.
	offset := max(len(events)-math.MaxUint16, 0)
	question := make([]Event[T], len(events)-offset)
	for i := range question {
		question[i] = events[offset+i].Event
		question[i].mark = uint16(i + 1)
	}
	drop = make([]bool, len(events))
	for i := range question {
		drop[offset+i] = true
	}
	last := 0
	for _, kept := range compactor(question) {
		mark := int(kept.mark)
		if mark <= last || mark > len(question) {
			return nil, ErrCompaction
		}
		last = mark
		drop[offset+mark-1] = false
	}
	return drop, nil
}

// fold merges each dropped event into the next one, and keeps the events that the table does not
// let it merge. It returns the kept events. The slice wanted tells for each one whether the
// compactor wanted it.
func fold[T any](events []record[T], drop []bool) (kept []record[T], wanted []bool) {
	for i, next := range events {
		gone := false
		for !gone && len(kept) > 0 && !wanted[len(kept)-1] {
			last := len(kept) - 1
			merged, n := merge(&kept[last], &next)
			if n == 2 {
				break
			}
			if n == 0 && !drop[i] {
				// The handler never knew of the object, but the compactor wants this event.
				merged, n = inherit(&next, &kept[last]), 1
			}
			kept, wanted = kept[:last], wanted[:last]
			next, gone = merged, n == 0
		}
		if !gone {
			kept, wanted = append(kept, next), append(wanted, !drop[i])
		}
	}
	return kept, wanted
}
