package series

// EventType is the verb of an event. client-go calls it DeltaType.
type EventType string

const (
	Addition     EventType = "Addition"
	Modification EventType = "Modification"
	Deletion     EventType = "Deletion"
)

// Event is client-go's Delta: a verb and a payload. The Java outcome calls it AbstractEvent.
//
// Library: eventqueue.Event.
type Event[T Object] struct {
	Type          EventType
	Prior, Object T // Prior is set for a Modification, once it is tracked

	// Sync is true if the event comes from a list or a resync, and not from a watch. In the Java
	// outcome such an event has a type of its own, SynchronizationEvent.
	Sync bool

	// FinalStateUnknown is true for a Deletion that a list revealed: DeletedFinalStateUnknown.
	FinalStateUnknown bool
}

// EventQueue is client-go's Deltas: what happened to one object and was not processed yet, oldest
// first.
//
// Library: eventqueue.Queue.
type EventQueue[T Object] struct {
	Key    string
	Events []Event[T]
}

func (q *EventQueue[T]) add(event Event[T]) {
	last := len(q.Events) - 1
	if event.Sync && last >= 0 && q.Events[last].Type == Deletion {
		return // a deleted object needs no sync; but the list may have found its successor
	}
	// Of two deletions, one is enough: the one that knows more. Two deletions alone stay two, though,
	// because the Java outcome looks only at queues with more than two events.
	if event.Type == Deletion && last >= 1 && q.Events[last].Type == Deletion {
		if q.Events[last].FinalStateUnknown {
			q.Events[last] = event
		}
		return
	}
	q.Events = append(q.Events, event)
}
