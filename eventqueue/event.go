package eventqueue

import (
	"fmt"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
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
	Type Type

	// Key is the object's key. It is always set.
	Key store.Key

	// Prior is the object before the event, if PriorKnown. The Prior of the
	// first event of a queue is the object that was last acknowledged.
	Prior T

	// PriorKnown is true for every Modification, false for every Addition, and
	// true for a Deletion unless nothing was ever acknowledged of the object.
	PriorKnown bool

	// Object is the object after the event; for a Deletion, the last state of
	// it that is known.
	Object T

	Origin Origin

	// Initial is true for the objects of the first list: they existed before
	// anybody looked. An Addition that is not Initial is news.
	Initial bool

	// FinalStateKnown is true for a Deletion whose Object is the state in which
	// the object was deleted. It is false for one that a list found missing:
	// client-go's DeletedFinalStateUnknown.
	FinalStateKnown bool
}

// String returns the type, the key and the origin, for logs.
func (e Event[T]) String() string {
	return fmt.Sprintf("%v of %v (%v)", e.Type, e.Key, e.Origin)
}

// record is an event as a collection keeps it.
type record[T any] struct {
	Event[T]

	// uid is the UID of Object, if it has one. It is kept beside the object
	// because a transformed object may have lost it.
	uid types.UID

	// tried is true for an event that was handed out and not acknowledged: the
	// handler may have acted on it.
	tried bool
}

// newRecord returns the event that a change means to somebody who acknowledged
// everything before it.
func newRecord[T any](c store.Change[T], origin Origin, initial bool) record[T] {
	return record[T]{
		Event: Event[T]{
			Type:            c.Type,
			Key:             c.Key,
			Prior:           c.Prior,
			PriorKnown:      c.Type != Addition,
			Object:          c.Object,
			Origin:          origin,
			Initial:         initial,
			FinalStateKnown: c.FinalStateKnown,
		},
		uid: c.Version.UID,
	}
}
