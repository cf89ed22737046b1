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
	// Watch is the origin of what the API server reported as it happened.
	Watch = store.Watch
	// List is the origin of what a list brought to light: the first objects,
	// and what changed unseen before a relist.
	List = store.List
	// Resync is the origin of what [Collection.Resync] hands out once more.
	Resync = store.Resync
)

// Event is something that happened to an object. It is a value: changing one
// changes nothing else. The objects in it are shared with the cache and
// read-only.
type Event[T any] struct {
	Type   Type
	Origin Origin

	// Initial is true for the objects of the first list: they existed before
	// anybody looked. An Addition that is not Initial is news. It is true as well
	// for what the first list found missing of what had been told before it.
	Initial bool

	// FinalStateKnown is true for a Deletion whose Object is the state in which
	// the object was deleted. It is false for one that a list found missing:
	// client-go's DeletedFinalStateUnknown.
	FinalStateKnown bool

	// OutOfScope is true for a Deletion of what goes on to exist: the object left what the cache
	// is for, because a scope was dropped or it belongs to another shard now. It is none of
	// this program's business any more, and nothing is to be cleaned up after it.
	OutOfScope bool

	// PriorKnown is true for every Modification, false for every Addition, and
	// false for a Deletion only if the object's Addition was merged into it.
	PriorKnown bool

	// mark tells a Compactor's answer from its question. It is zero in every
	// event that is handed out.
	mark uint16

	// Key is the object's key. It is always set.
	Key store.Key

	// Prior is the object before the event, if PriorKnown. The Prior of the
	// first event of a queue is the object that was last acknowledged.
	Prior T

	// Object is the object after the event; for a Deletion, the last state of
	// it that is known.
	Object T
}

// String returns the type, the key, the origin, and whether the object left, for logs.
func (e Event[T]) String() string {
	if e.OutOfScope {
		return fmt.Sprintf("%v of %v (%v, left)", e.Type, e.Key, e.Origin)
	}
	return fmt.Sprintf("%v of %v (%v)", e.Type, e.Key, e.Origin)
}
