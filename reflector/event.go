package reflector

import (
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// take says what an event of the watch means.
func (r *run[T]) take(event watch.Event) input {
	r.status.contact()
	r.event = event
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return r.takeObject()
	case watch.Bookmark:
		metadata := metadataOf(event.Object)
		if metadata == nil {
			return r.bad(newTypeError[T](event.Object))
		}
		closing := metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		return input{kind: marked, version: metadata.GetResourceVersion(), closing: closing}
	case watch.Error:
		if isNil(event.Object) {
			return r.bad(newTypeError[*metav1.Status](event.Object))
		}
		return r.bad(apierrors.FromObject(event.Object))
	}
	return r.bad(&EventTypeError{Type: string(event.Type)})
}

// takeObject takes the object of an event. One that is not a T says that the
// server and this program do not mean the same resource.
func (r *run[T]) takeObject() input {
	if isTable(r.event.Object) {
		return r.bad(ErrTable)
	}
	var none T
	object, ok := any(r.event.Object).(T)
	r.undecoded = nil
	if c, wrapped := r.event.Object.(carried[T]); wrapped {
		if c.err != nil {
			bad := rejection(c.Unstructured, c.err)
			r.undecoded = &bad
			return input{kind: changed, version: c.GetResourceVersion(), added: r.event.Type == watch.Added}
		}
		object, ok = c.object, true
	}
	if !ok || object == none {
		return r.bad(newTypeError[T](r.event.Object))
	}
	r.object = object
	return input{kind: changed, version: object.GetResourceVersion(), added: r.event.Type == watch.Added}
}

// bad says that an event makes the watch useless.
func (r *run[T]) bad(err error) input {
	failure := r.newError(OpWatch, r.protocol.position, err)
	if metadata := metadataOf(r.event.Object); metadata != nil {
		failure.Key = store.Key{Namespace: metadata.GetNamespace(), Name: metadata.GetName()}
	}
	return input{kind: failed, err: failure}
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
