package series

type EventType string

const (
	Addition     EventType = "Addition"
	Modification EventType = "Modification"
	Deletion     EventType = "Deletion"
)

// Event is client-go's Delta, and AbstractEvent of the Java outcome. Library: eventqueue.Event.
type Event[T Object] struct {
	Type              EventType
	Sync              bool // a SynchronizationEvent: from a relist or a resync, not from a watch
	FinalStateUnknown bool // DeletedFinalStateUnknown
	Prior, Object     T
}

// EventQueue is client-go's Deltas: the waiting events of one object, oldest first.
// Library: eventqueue.Queue.
type EventQueue[T Object] struct {
	Key    string
	Events []Event[T]
}

func (q *EventQueue[T]) add(event Event[T]) {
	last := len(q.Events) - 1
	if event.Sync && last >= 0 && q.Events[last].Type == Deletion {
		return // what was deleted needs no synchronisation: this loses a re-creation
	}
	if last >= 1 && event.Type == Deletion && q.Events[last].Type == Deletion {
		if q.Events[last].FinalStateUnknown {
			q.Events[last] = event // keep the one that knows more
		}
		return
	}
	q.Events = append(q.Events, event)
}
