package eventqueue

import "fmt"

// Compaction says which events of an object a collection keeps until they are
// acknowledged: [KeepAll], [KeepLatest] or [KeepLast]. For one of your own see
// [Collection.CompactBy].
type Compaction int

const (
	// KeepAll keeps every event. Memory grows for as long as a handler stalls.
	KeepAll Compaction = 0
	// KeepLatest merges events as the table in the package documentation says:
	// a handler gets the latest state of an object, and never misses that one
	// was deleted. At most two events of a key are kept, and three if some of
	// them were handed out before. They are merged when somebody looks: up to 64
	// events of all keys together may lie there as they came.
	KeepLatest Compaction = 1
)

// KeepLast keeps the last n events of each object and merges those before them,
// as the table in the package documentation says, into one if that can be: a
// handler gets the last states one by one. At most n events of a key are kept, or
// as many as under [KeepLatest] if that is more. KeepLast(1) is KeepLatest; less
// than 1 counts as 1.
func KeepLast(n int) Compaction { return Compaction(max(n, 1)) }

// String returns "KeepAll", "KeepLatest" or the like of "KeepLast(3)".
func (c Compaction) String() string {
	switch {
	case c == KeepAll:
		return "KeepAll"
	case c <= KeepLatest:
		return "KeepLatest"
	}
	return fmt.Sprintf("KeepLast(%d)", int(c))
}

// add adds an event to the waiting events of its key, oldest first, and returns
// them with the number of tried incarnations that were dropped. It may change the
// elements of waiting.
func add[T any](c Compaction, waiting []record[T], next record[T]) (events []record[T], dropped int) {
	if next.Origin == Resync && len(waiting) > 0 {
		// What waits will hand the object out anyway; a deleted one must not
		// come back.
		return waiting, 0
	}
	if c == KeepAll {
		return append(waiting, next), 0
	}
	// The oldest are merged first, the new one last.
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
