package eventqueue

import (
	"fmt"

	"github.com/kubereflector/kubereflector/store"
)

// Type says what happened to an object: [Addition], [Modification] or
// [Deletion].
type Type = store.ChangeType

const (
	// Addition means that an object appeared.
	Addition = store.Addition
	// Modification means that an object changed or, if the event's Origin is
	// Resync, is handed out once more.
	Modification = store.Modification
	// Deletion means that an object is gone.
	Deletion = store.Deletion
)

// Origin says where an event comes from: [Watch], [List] or [Resync].
type Origin = store.Origin

const (
	// Watch is the origin of a change that the API server reported as it happened.
	Watch = store.Watch
	// List is the origin of a change that a list revealed: the first objects, and the changes that
	// the watch missed before a relist.
	List = store.List
	// Resync is the origin of an event that [Collection.Resync] queued.
	Resync = store.Resync
)

// Event is a change of an object. It is a value: changing one Event changes nothing else. Its
// objects are shared with the cache and read-only.
type Event[T any] struct {
	Type   Type
	Origin Origin

	// Initial is true for the objects of the first list: they existed before the reflector started
	// to watch. An Addition that is not Initial is news. Initial is also true for a Deletion of an
	// object that earlier events reported and that the first list does not contain.
	Initial bool

	// FinalStateKnown is true for a Deletion whose Object is the state in which the object was
	// deleted. It is false if a list revealed the deletion: client-go's DeletedFinalStateUnknown.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion of an object that still exists. The object left the scope
	// of the cache, because a scope was dropped or because another shard owns the object now. Do
	// not clean up after such an object.
	OutOfScope bool

	// PriorKnown is true for every Modification, false for every Addition, and
	// false for a Deletion only if the object's Addition was merged into it.
	PriorKnown bool

	// Key is the object's key. It is always set.
	Key store.Key

	// Prior is the object before the event, if PriorKnown. The Prior of the
	// first event of a queue is the object that was last acknowledged.
	Prior T

	// Object is the object after the event. For a Deletion, it is the last known state.
	Object T
}

// String returns the type, the key, the origin, and whether the object left, for logs.
func (e Event[T]) String() string {
	if e.OutOfScope {
		return fmt.Sprintf("%v of %v (%v, left)", e.Type, e.Key, e.Origin)
	}
	return fmt.Sprintf("%v of %v (%v)", e.Type, e.Key, e.Origin)
}
