package eventqueue

import (
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

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
