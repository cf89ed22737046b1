package source

import (
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is a watch event in the reflector's own form.
type Event[T Object] struct {
	Type            watch.EventType
	ResourceVersion string // of the object, or of the bookmark
	Object          T
	// Rejection replaces an object that could not be decoded.
	Rejection *store.Rejection
	// Held replaces objects that the store already holds at the same version.
	Held []store.Key
	// OutOfShard counts the objects outside the shards that this event replaces. departed is such an
	// object that the store may still hold.
	OutOfShard       int
	Left             *Departure
	Key              store.Key
	InitialEventsEnd bool // the bookmark ends the initial events
	// Err makes the watch unusable. It concerns the object under key, if the key is known. If cut
	// is true, err only explains the end of the watch.
	Err error
	Cut bool
}

// IsChange reports whether an event is a change of an object.
func (e *Event[T]) IsChange() bool {
	return e.Err == nil && !e.Cut && e.Type != watch.Bookmark
}

// ReadEvent reads an event of a client's watch.
func ReadEvent[T Object](from watch.Event) Event[T] {
	e := Event[T]{Type: from.Type}
	switch from.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		e.read(from.Object)
	case watch.Bookmark:
		if metadata := MetadataOf(from.Object); metadata != nil {
			e.ResourceVersion = metadata.GetResourceVersion()
			e.Err = CheckVersion(e.ResourceVersion)
			e.InitialEventsEnd = metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		} else {
			e.Err = NewTypeError[T](from.Object)
		}
	case watch.Error:
		if IsNil(from.Object) {
			e.Err = NewTypeError[*metav1.Status](from.Object)
		} else {
			e.Err = Bound(apierrors.FromObject(from.Object))
		}
	default:
		e.Err = &EventTypeError{Type: string(from.Type)}
	}
	return e
}

// read takes the object of an event. If the object is not a T, the server and this program do not
// mean the same resource.
func (e *Event[T]) read(from runtime.Object) {
	object, ok := any(from).(T)
	switch {
	case IsTable(from):
		e.Err = ErrTable
	case !ok || IsNil(object):
		e.Err = NewTypeError[T](from)
	default:
		e.Object, e.ResourceVersion = object, object.GetResourceVersion()
		e.Err = CheckVersion(e.ResourceVersion)
		return
	}
	if metadata := MetadataOf(from); metadata != nil {
		e.Key = store.Key{Namespace: metadata.GetNamespace(), Name: metadata.GetName()}
	}
}

// MetadataOf returns the metadata of an object, or nil if it has none.
func MetadataOf(object runtime.Object) metav1.Object {
	if IsNil(object) {
		return nil
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return metadata
}
