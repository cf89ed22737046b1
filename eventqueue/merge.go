package eventqueue

import "slices"

// Compaction selects the events of an object that a collection keeps until they are acknowledged:
// [KeepLatest] or [KeepAll]. [Collection.KeepIf] selects single events.
type Compaction int

const (
	// KeepAll keeps every event, as the series' EventQueue does. Memory grows for as long as a
	// handler stalls.
	KeepAll Compaction = iota

	// KeepLatest merges events, so that memory depends on the number of keys, however long a
	// handler stalls. A handler gets the latest state of an object, and the deletion of each object
	// that it may know. Besides merged events, the collection buffers up to 64 unmerged events of
	// all keys together. The table shows the result of merging the last waiting event with a new
	// event:
	//
	//	waiting + new event                         becomes
	//	Addition + Deletion                         nothing
	//	Addition, tried + Deletion                  the Deletion, its Prior unknown
	//	Addition, Initial + Deletion                the Deletion, its Prior unknown: an earlier
	//	                                            process may have left something behind
	//	Addition + Modification                     an Addition of the new object
	//	Modification + Modification                 the new one, with the first Prior
	//	Modification + Deletion                     the Deletion, with the first Prior
	//	Deletion + Addition, same UID               a Modification from the acknowledged object;
	//	                                            an Addition if none was acknowledged
	//	Deletion, handed over + Addition, same UID  both
	//	Deletion + Addition, another UID            both
	//	Deletion + Addition, no UID                 both
	//	anything + resync                           unchanged
	//
	// An event is "tried" if the collection handed over an event of its object and the handler did
	// not acknowledge it. The handler may have acted on that object, so it must receive the object's
	// deletion. [Queue.Each], [Queue.Events], [Queue.Newest] and [Collection.Consume] hand
	// over each event that they return or yield. If the holder of a queue uses none of them,
	// all its events count as handed over, because the holder may act on the key.
	//
	// A merged event is tried if either event was tried, and Initial if either was Initial. It takes
	// the origin and the final state of the newer event. The collection then tries to merge it with
	// the event before it. For example, let [Deletion a, Addition b] wait when a Deletion of b comes.
	// If b was not tried, the result is the Deletion of a. If b was tried, both deletions remain. A
	// resync is never merged into other events, so an event has origin Resync only if nothing else
	// happened.
	//
	// An OutOfScope Deletion follows the same table, although its object may still exist. If the object
	// leaves and comes back before the handler receives the Deletion, the result is a Modification.
	// If the object comes back and is then deleted, the result is an ordinary Deletion.
	//
	// A queue keeps at most two merged events of a key, or three after an event was tried: the
	// deletion of the acknowledged object, the deletion of the newest tried object, and the current
	// event. An object name may be tried, deleted and re-created many times. The collection then
	// drops the older deletions and counts them in [Stats].
	KeepLatest
)

// WithCompaction selects the events that the collection keeps. The default is [KeepLatest].
func WithCompaction(policy Compaction) Option {
	return optionFunc(func(o *options) { o.compaction = policy })
}

// KeepIf hands over the events for which keep returns true one by one. The collection merges all
// other events as [KeepLatest] does, whatever [WithCompaction] selects. Memory then depends on the
// number of events that keep selects. A nil keep removes the predicate.
//
// The collection calls keep once for each later event. Events that already wait under [KeepAll] stay
// apart. An event that comes during KeepIf may be merged without a call of keep. The function runs under
// the lock of the cache's writer, so it must be quick and must not write to the cache or call
// [runtime.Goexit]. If it panics, the collection treats the result as false, and [Collection.Stats]
// reports the panic.
func (c *Collection[T]) KeepIf(keep func(Event[T]) bool) {
	if keep == nil {
		c.keepIf.Store(nil)
		return
	}
	c.lockAndQueue() // with the policy under which the events came
	defer c.mu.Unlock()
	c.keepIf.Store(&keep)
}

// policy returns the compaction in effect.
func (c *Collection[T]) policy() Compaction {
	if c.keepIf.Load() != nil {
		return KeepLatest
	}
	return c.compaction
}

// mergeNext merges an event with the waiting events of its key, newest first, as far as possible, and adds
// the result to the others. It returns the events, oldest first, and the number of tried incarnations that
// it dropped. It may change the elements of waiting.
func mergeNext[T any](waiting []record[T], next record[T]) (events []record[T], dropped int) {
	if next.Origin == Resync && len(waiting) > 0 {
		// The waiting events hand the object out anyway. A deleted object must not come back.
		return waiting, 0
	}
	for last := len(waiting) - 1; last >= 0; last-- {
		merged, n := merge(&waiting[last], &next)
		if n == 2 {
			break
		}
		waiting[last] = record[T]{}
		waiting = waiting[:last]
		if n == 0 {
			return waiting, 0
		}
		next = merged
	}
	waiting = append(waiting, next)
	if next.Type != Deletion || next.PriorKnown {
		return waiting, 0
	}
	return trim(waiting)
}

// merge merges two consecutive events of an object by the table of [KeepLatest]. It returns the
// result and the number of events: 0 if they cancel each other, 1, or 2 if both must stay.
func merge[T any](earlier, later *record[T]) (merged record[T], n int) {
	switch {
	case earlier.keptApart:
		return merged, 2
	case earlier.Type == Deletion:
		if later.Type != Addition || earlier.delivered || earlier.uid == "" || earlier.uid != later.uid {
			return merged, 2
		}
		// The same object came back before a handler received its deletion. For example, it left a
		// selector and entered it again.
		merged = inherit(later, earlier)
		if earlier.PriorKnown {
			merged.Type = Modification
		}
		return merged, 1
	case later.Type == Deletion:
		if earlier.Type == Addition && !earlier.tried && !later.tried && !earlier.Initial && !later.keptApart {
			return merged, 0 // no handler ever knew of the object
		}
		return inherit(later, earlier), 1
	default:
		// The object changed once more: an Addition stays one, a Modification
		// keeps its Prior.
		merged = inherit(later, earlier)
		merged.Type = earlier.Type
		return merged, 1
	}
}

// inherit returns an event that starts from where an earlier one started.
func inherit[T any](e, earlier *record[T]) record[T] {
	merged := *e
	merged.Prior, merged.PriorKnown = earlier.Prior, earlier.PriorKnown
	merged.Initial = e.Initial || earlier.Initial
	merged.tried = e.tried || earlier.tried
	return merged
}

// trim keeps only the newest of the deletions of objects that were never acknowledged, and returns
// the number that it dropped. Otherwise a handler that always fails on an object that is always
// re-created would fill memory. What is before an event that is kept apart was trimmed before.
func trim[T any](events []record[T]) (kept []record[T], dropped int) {
	newer := false
	for i := len(events) - 1; i >= 0 && !events[i].keptApart; i-- {
		if events[i].Type != Deletion || events[i].PriorKnown {
			continue
		}
		if newer {
			events = slices.Delete(events, i, i+1)
			dropped++
		}
		newer = true
	}
	return events, dropped
}
