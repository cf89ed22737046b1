package source

import (
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// These types describe what a source delivers. Package stream makes them from bytes; ReadEvent and
// the page of a ClientSource make them from a client's objects.
type (
	Object          = stream.Object
	Event[T Object] = stream.Event[T]
	Page[T Object]  = stream.Page[T]
	Shards          = stream.Shards
	HoldsFunc       = stream.HoldsFunc
	TypeError       = stream.TypeError
	EventTypeError  = stream.EventTypeError
)

// ReadEvent reads an event of a client's watch.
func ReadEvent[T Object](from watch.Event) Event[T] {
	e := Event[T]{Type: from.Type}
	switch from.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		readObject(&e, from.Object)
	case watch.Bookmark:
		if metadata := MetadataOf(from.Object); metadata != nil {
			e.ResourceVersion = metadata.GetResourceVersion()
			e.Err = stream.CheckVersion(e.ResourceVersion)
			e.InitialEventsEnd = metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		} else {
			e.Err = NewTypeError[T](from.Object)
		}
	case watch.Error:
		if IsNil(from.Object) {
			e.Err = NewTypeError[*metav1.Status](from.Object)
		} else {
			e.Err = stream.Bound(apierrors.FromObject(from.Object))
		}
	default:
		e.Err = &EventTypeError{Type: string(from.Type)}
	}
	return e
}

// readObject takes the object of an event. If the object is not a T, the server and this program do
// not mean the same resource.
func readObject[T Object](e *Event[T], from runtime.Object) {
	object, ok := any(from).(T)
	switch {
	case IsTable(from):
		e.Err = stream.ErrTable
	case !ok || IsNil(object):
		e.Err = NewTypeError[T](from)
	default:
		e.Object, e.ResourceVersion = object, object.GetResourceVersion()
		e.Err = stream.CheckVersion(e.ResourceVersion)
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
