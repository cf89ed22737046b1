package reflector

import (
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a watch event in the reflector's own form.
type event[T Object] struct {
	kind    watch.EventType
	version string // of the object, or of the bookmark
	object  T
	// lacking replaces an object that could not be decoded.
	lacking *store.Rejection
	// unchanged replaces objects that the store already holds at the same version.
	unchanged []store.Key
	// foreign counts the objects outside the shards that this event replaces. departed is such an
	// object that the store may still hold.
	foreign  int
	departed *departure
	key      store.Key
	closing  bool // the bookmark ends the initial events
	// err makes the watch unusable. It concerns the object under key, if the key is known. If cut
	// is true, err only explains the end of the watch.
	err error
	cut bool
}

// takePending takes all pending changes up to the first event of another kind, or that event alone.
// A store without batches of its own receives changes one by one. The objects of one batch that
// could not be decoded result in one joined error.
func (r *run[T]) takePending() protocol.Input {
	n := 0
	for n < len(r.pending) && r.pending[n].changes() {
		n++
	}
	if n < 2 || !r.own {
		next := r.pending[0]
		r.pending = r.pending[1:]
		return r.take(next)
	}
	r.events, r.pending = r.pending[:n], r.pending[n:]
	r.recording.received(r.events)
	in := protocol.Input{Kind: protocol.Changed}
	for i := range r.events {
		e := &r.events[i]
		if e.version != "" {
			in.Version = e.version
		}
		in.Added = in.Added || e.kind == watch.Added
		r.learnEvent(e)
	}
	return in
}

// changes reports whether an event is a change of an object.
func (e *event[T]) changes() bool {
	return e.err == nil && !e.cut && e.kind != watch.Bookmark
}

// take converts an event into an input for the protocol.
func (r *run[T]) take(e event[T]) protocol.Input {
	r.one[0] = e
	r.events = r.one[:]
	r.recording.received(r.events)
	r.learnEvent(&e)
	switch {
	case e.cut:
		return protocol.Input{Kind: protocol.Ended, Err: r.newError(OpWatch, r.protocol.Position(), e.err)}
	case e.err != nil:
		failure := r.newError(OpWatch, r.protocol.Position(), e.err)
		if failure.Key == (store.Key{}) {
			failure.Key = e.key
		}
		return protocol.Input{Kind: protocol.Failed, Err: failure}
	case e.kind == watch.Bookmark:
		return protocol.Input{Kind: protocol.Marked, Version: e.version, Closing: e.closing}
	}
	return protocol.Input{Kind: protocol.Changed, Version: e.version, Added: e.kind == watch.Added}
}

// readEvent reads an event of a client's watch.
func readEvent[T Object](from watch.Event) event[T] {
	e := event[T]{kind: from.Type}
	switch from.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		e.read(from.Object)
	case watch.Bookmark:
		if metadata := metadataOf(from.Object); metadata != nil {
			e.version = metadata.GetResourceVersion()
			e.err = checkVersion(e.version)
			e.closing = metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		} else {
			e.err = newTypeError[T](from.Object)
		}
	case watch.Error:
		if isNil(from.Object) {
			e.err = newTypeError[*metav1.Status](from.Object)
		} else {
			e.err = bounded(apierrors.FromObject(from.Object))
		}
	default:
		e.err = &EventTypeError{Type: string(from.Type)}
	}
	return e
}

// read takes the object of an event. If the object is not a T, the server and this program do not
// mean the same resource.
func (e *event[T]) read(from runtime.Object) {
	object, ok := any(from).(T)
	switch {
	case isTable(from):
		e.err = ErrTable
	case !ok || isNil(object):
		e.err = newTypeError[T](from)
	default:
		e.object, e.version = object, object.GetResourceVersion()
		e.err = checkVersion(e.version)
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
