package eventqueue

import "slices"

// merge merges two consecutive events of an object by the table in the package documentation. It
// returns the result and the number of events: 0 if they cancel each other, 1, or 2 if both must
// stay.
func merge[T any](earlier, later *record[T]) (merged record[T], n int) {
	switch {
	case earlier.Type == Deletion:
		if later.Type != Addition || earlier.told || earlier.uid == "" || earlier.uid != later.uid {
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
		if earlier.Type == Addition && !earlier.tried && !later.tried && !earlier.Initial {
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

// mergeOldest merges the first two events that can be merged, and reports whether it found any.
func mergeOldest[T any](events *[]record[T]) bool {
	all := *events
	for i := range len(all) - 1 {
		merged, n := merge(&all[i], &all[i+1])
		if n == 2 {
			continue
		}
		if n == 1 {
			all[i+1] = merged
		}
		*events = slices.Delete(all, i, i+2-n)
		return true
	}
	return false
}

// trim keeps only the newest of the deletions of objects that were never acknowledged, and returns
// the number that it dropped. Otherwise a handler that always fails on an object that is always
// re-created would fill memory. Events that are wanted stay; a nil wanted means that none is.
func trim[T any](events []record[T], wanted []bool) (kept []record[T], dropped int) {
	newer := false
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Type != Deletion || events[i].PriorKnown {
			continue
		}
		if newer && (wanted == nil || !wanted[i]) {
			events = slices.Delete(events, i, i+1)
			dropped++
		}
		newer = true
	}
	return events, dropped
}
