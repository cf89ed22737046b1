package eventqueue

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// Compactor is a compaction of a user's own: it is given a copy of the events of one
// object that wait, oldest first and at least two, and returns those that have to
// reach the handler one by one, in their order. The others are merged into what
// comes after them, as the table in the package documentation says. What the table
// does not let go stays, whatever the answer: the last state, and the deletion of an
// object that the handler may know. Only of the deletions of objects that were never
// acknowledged, those that are not in the answer give way to the newest.
//
// It is called after each event that joins others, so its cost counts for each of
// them. It runs under the locks of the cache's writer and of the collection: it must
// be quick and must not call either. Changes to the events themselves are ignored. It
// must not call [runtime.Goexit]: that ends the goroutine that writes or settles.
type Compactor[T any] func(events []Event[T]) (keep []Event[T])

// ErrCompaction is what was wrong with the answer of a [Compactor] that returned
// events which it was not given, twice, or in another order.
var ErrCompaction = errors.New("compactor must return some of the events that it was given, in their order")

// CompactionError says how a [Compactor] failed. The events that it was given are kept
// as [WithCompaction] says.
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

// CompactBy sets a compaction of your own, for what waits already and for all that
// comes. It is applied after the one of [WithCompaction], by which memory can still
// be bounded. A compactor that panics or answers nonsense does no harm; it shows in
// [Collection.Stats]. Nil ends it.
func (c *Collection[T]) CompactBy(compactor Compactor[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	c.compactor = compactor
	c.regulateLocked()
	c.sortInLocked()
	for _, l := range slices.Collect(c.keys.all()) { // some of them may go
		c.compactLocked(l)
	}
}

// compactLocked lets the user's compactor say which of the waiting events of a key
// are kept.
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

// consult asks a compactor which events are dropped.
func consult[T any](compactor Compactor[T], events []record[T]) (drop []bool, err error) {
	key := events[0].Key
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Key: key, Value: value, Stack: debug.Stack()}
		}
	}()
	// What marks cannot count is older than what they can, and stays.
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

// fold merges the events that are dropped into those behind them, and keeps those
// that the table does not let go. It returns which of what it kept was not to be dropped.
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
				// Wanted although nobody knew of the object.
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
