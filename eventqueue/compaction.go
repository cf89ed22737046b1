package eventqueue

import "fmt"

// Compaction selects the events of an object that a collection keeps until they are acknowledged:
// [KeepAll], [KeepLatest] or [KeepLast]. [Collection.CompactBy] adds a compaction of your own.
type Compaction int

const (
	// KeepAll keeps every event. Memory grows for as long as a handler stalls.
	KeepAll Compaction = 0
	// KeepLatest merges events by the table in the package documentation. A handler gets the latest
	// state of an object, and never misses the deletion of an object. A collection keeps at most
	// two events of a key, or three if it handed out some of them before. It merges events when a
	// method needs them; until then it buffers up to 64 unmerged events of all keys together.
	KeepLatest Compaction = 1
)

// KeepLast keeps the last n events of each object. It merges the events before them into one, if
// the table in the package documentation allows it. A handler gets the last states one by one. A
// collection keeps at most n events of a key, or as many as under [KeepLatest] if that is more.
// KeepLast(1) is KeepLatest; a smaller n counts as 1.
func KeepLast(n int) Compaction { return Compaction(max(n, 1)) }

// String returns "KeepAll", "KeepLatest" or, for example, "KeepLast(3)".
func (c Compaction) String() string {
	switch {
	case c == KeepAll:
		return "KeepAll"
	case c <= KeepLatest:
		return "KeepLatest"
	}
	return fmt.Sprintf("KeepLast(%d)", int(c))
}

// add adds an event to the waiting events of its key. It returns the events, oldest first, and the
// number of tried incarnations that it dropped. It may change the elements of waiting.
func add[T any](c Compaction, waiting []record[T], next record[T]) (events []record[T], dropped int) {
	if next.Origin == Resync && len(waiting) > 0 {
		// The waiting events hand the object out anyway. A deleted object must not come back.
		return waiting, 0
	}
	if c == KeepAll {
		return append(waiting, next), 0
	}
	// Merge the oldest events first and the new event last.
	for len(waiting) >= max(int(c), 1) {
		if mergeOldest(&waiting) {
			continue
		}
		last := len(waiting) - 1
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
	return trim(append(waiting, next), nil)
}
