package eventqueue

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// record is an event as a collection keeps it.
type record[T any] struct {
	Event[T]

	// uid is the UID of Object, if it has one. It is kept beside the object
	// because a transformed object may have lost it.
	uid types.UID

	// tried is true if the object of the event was handed out and not
	// acknowledged, be it by an event that was merged into this one: the handler
	// may have acted on it.
	tried bool

	// told is true if this very event was handed out and not acknowledged.
	told bool
}

// newRecord returns the event that a change means to somebody who acknowledged
// everything before it.
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
			Left:            c.Left,
		},
		uid: c.Version.UID,
	}
}

// live reports whether an event is news, and not part of a first list or of a
// resync, which can wait.
func (r *record[T]) live() bool { return !r.Initial && r.Origin != Resync }
