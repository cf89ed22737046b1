package eventqueue

import "fmt"

// Compaction says which events of an object a queue keeps until they are
// acknowledged.
type Compaction int

const (
	// KeepAll keeps every event. Memory grows for as long as a handler stalls.
	KeepAll Compaction = iota
	// KeepLatest merges events as the table in the package documentation says:
	// a handler gets the latest state of an object, and never misses that one
	// was deleted. At most three events of a key are kept.
	KeepLatest
)

// String returns "KeepAll" or "KeepLatest".
func (c Compaction) String() string {
	switch c {
	case KeepAll:
		return "KeepAll"
	case KeepLatest:
		return "KeepLatest"
	}
	return fmt.Sprintf("Compaction(%d)", int(c))
}

// merge adds an event to the waiting events of its key, oldest first. It may
// change the elements of waiting.
func merge[T any](c Compaction, waiting []record[T], next record[T]) []record[T] {
	if len(waiting) == 0 {
		return append(waiting, next)
	}
	if next.Origin == Resync {
		// What waits will hand the object out anyway; a deleted one must not
		// come back.
		return waiting
	}
	if c == KeepAll {
		return append(waiting, next)
	}
	last := waiting[len(waiting)-1]
	rest := waiting[:len(waiting)-1]
	if next.Type == Deletion {
		return mergeDeletion(rest, last, next)
	}
	if last.Type == Deletion {
		return mergeAddition(rest, last, next)
	}
	// The object changed once more since the last event, whose place the new
	// one takes: an Addition stays one, a Modification keeps its Prior.
	next.Type = last.Type
	return append(rest, inherit(next, last))
}

// mergeDeletion adds a Deletion behind last, the newest of the waiting events.
func mergeDeletion[T any](rest []record[T], last, deletion record[T]) []record[T] {
	if last.Type == Addition && !last.tried && !last.Initial {
		return rest // nobody ever knew of the object
	}
	return trim(append(rest, inherit(deletion, last)))
}

// mergeAddition adds an Addition behind last, which is a Deletion.
func mergeAddition[T any](rest []record[T], last, addition record[T]) []record[T] {
	if last.tried || last.uid == "" || last.uid != addition.uid {
		return trim(append(rest, last, addition))
	}
	// The same object came back, as one does that left a selector and entered
	// it again, before anybody was told that it had gone.
	if last.PriorKnown {
		addition.Type = Modification
	}
	return append(rest, inherit(addition, last))
}

// inherit makes an event start from where an earlier one started.
func inherit[T any](e, earlier record[T]) record[T] {
	e.Prior, e.PriorKnown = earlier.Prior, earlier.PriorKnown
	e.Initial = e.Initial || earlier.Initial
	e.tried = earlier.tried
	return e
}

// trim keeps, of the deletions of objects that were never acknowledged, only the
// newest: a handler that fails for ever on objects that are re-created for ever
// must not fill memory.
func trim[T any](events []record[T]) []record[T] {
	unacknowledged := 0
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Type != Deletion || events[i].PriorKnown {
			continue
		}
		if unacknowledged++; unacknowledged > 1 {
			events = append(events[:i], events[i+1:]...)
		}
	}
	return events
}
