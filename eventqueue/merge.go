package eventqueue

import "slices"

// merge returns what two events of an object, one behind the other, become, and
// how many events that is: 0 if they cancel each other, 1, or 2 if both have to
// stay. It is the table in the package documentation.
func merge[T any](earlier, later *record[T]) (merged record[T], n int) {
	switch {
	case earlier.Type == Deletion:
		if later.Type != Addition || earlier.told || earlier.uid == "" || earlier.uid != later.uid {
			return merged, 2
		}
		// The same object came back, as one does that left a selector and
		// entered it again, before anybody was told that it had gone.
		merged = inherit(later, earlier)
		if earlier.PriorKnown {
			merged.Type = Modification
		}
		return merged, 1
	case later.Type == Deletion:
		if earlier.Type == Addition && !earlier.tried && !later.tried && !earlier.Initial {
			return merged, 0 // nobody ever knew of the object
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

// mergeOldest merges the first two events that can be, and reports whether there
// are any.
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

// trim keeps, of the deletions of objects that were never acknowledged, only the
// newest, and returns how many it dropped: a handler that fails for ever on objects
// that are re-created for ever must not fill memory. Events that are wanted stay; nil
// means that none is.
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
