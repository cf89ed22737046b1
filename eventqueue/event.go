package eventqueue

import (
	"fmt"
	"sync/atomic"

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

	// OutOfScope is true for a Deletion of an object that still exists. Its scope was dropped
	// from the cache. Do not clean up after such an object.
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

// record is an event as a collection keeps it.
type record[T any] struct {
	Event[T]

	// uid is the UID of Object, if it has one. It is kept beside the object
	// because a transformed object may have lost it.
	uid types.UID

	// tried is true if a consumer got an event of this object and did not acknowledge it. That
	// event may be one that was merged into this one. The handler may have acted on the object.
	tried bool

	// wanted is true if the predicate of KeepIf selected the event. The collection merges it into
	// no later event.
	wanted bool

	// told is true if this very event was handed over and not acknowledged.
	told bool

	// read is 1 if the queue that is out handed over this event. Several
	// goroutines may read a queue, so it is accessed atomically.
	read uint32
}

// handOver returns the event for the holder of its queue.
func (r *record[T]) handOver() Event[T] {
	if atomic.LoadUint32(&r.read) == 0 {
		atomic.StoreUint32(&r.read, 1)
	}
	return r.Event
}

// wasRead reports whether the queue that is out handed over the event.
func (r *record[T]) wasRead() bool { return atomic.LoadUint32(&r.read) != 0 }

// waitingAgain returns the event in the form in which it waits after its queue came back.
func (r *record[T]) waitingAgain(handedOver bool) record[T] {
	return record[T]{Event: r.Event, uid: r.uid, wanted: r.wanted, tried: r.tried || handedOver, told: r.told || handedOver}
}

// newRecord returns the event of a change, for a consumer that acknowledged everything before it.
func newRecord[T any](c *store.Change[T], origin Origin, initial bool) record[T] {
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
			OutOfScope:      c.OutOfScope,
		},
		uid: c.Version.UID,
	}
}

// live reports whether an event is news. Events of a first list or of a resync are not live and can
// wait.
func (r *record[T]) live() bool { return !r.Initial && r.Origin != Resync }
