package reflector

import (
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// take says what an event means.
func (r *run[T]) take(e event[T]) input {
	r.event = e
	switch {
	case e.cut:
		return input{kind: ended, err: r.newError(OpWatch, r.protocol.position, e.err)}
	case e.err != nil:
		failure := r.newError(OpWatch, r.protocol.position, e.err)
		if failure.Key == (store.Key{}) {
			failure.Key = e.key
		}
		return input{kind: failed, err: failure}
	case e.kind == watch.Bookmark:
		return input{kind: marked, version: e.version, closing: e.closing}
	}
	return input{kind: changed, version: e.version, added: e.kind == watch.Added}
}

// readEvent reads an event of a client's watch.
func readEvent[T Object](from watch.Event) event[T] {
	if c, wrapped := from.Object.(carried[T]); wrapped {
		return c.event
	}
	e := event[T]{kind: from.Type}
	switch from.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		e.read(from.Object)
	case watch.Bookmark:
		if metadata := metadataOf(from.Object); metadata != nil {
			e.version = metadata.GetResourceVersion()
			e.closing = metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		} else {
			e.err = newTypeError[T](from.Object)
		}
	case watch.Error:
		if isNil(from.Object) {
			e.err = newTypeError[*metav1.Status](from.Object)
		} else {
			e.err = apierrors.FromObject(from.Object)
		}
	default:
		e.err = &EventTypeError{Type: string(from.Type)}
	}
	return e
}

// read takes the object of an event. One that is not a T says that the server and this
// program do not mean the same resource.
func (e *event[T]) read(from runtime.Object) {
	var none T
	object, ok := any(from).(T)
	switch {
	case isTable(from):
		e.err = ErrTable
	case !ok || object == none:
		e.err = newTypeError[T](from)
	default:
		e.object, e.version = object, object.GetResourceVersion()
		return
	}
	if metadata := metadataOf(from); metadata != nil {
		e.key = store.Key{Namespace: metadata.GetNamespace(), Name: metadata.GetName()}
	}
}

// metadataOf returns the metadata of an object, or nil if it has none.
func metadataOf(object runtime.Object) metav1.Object {
	if isNil(object) {
		return nil
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return metadata
}
