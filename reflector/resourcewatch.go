package reflector

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// resourceWatch turns a stream into a watch.Interface, for code that wraps a Resource.
type resourceWatch[T Object] struct {
	stream *wireWatch[T]
	events chan watch.Event
}

func newResourceWatch[T Object](s *wireWatch[T]) *resourceWatch[T] {
	w := &resourceWatch[T]{stream: s, events: make(chan watch.Event)}
	go w.run()
	return w
}

func (w *resourceWatch[T]) Stop() { w.stream.stop() }

func (w *resourceWatch[T]) ResultChan() <-chan watch.Event { return w.events }

func (w *resourceWatch[T]) run() {
	defer close(w.events)
	for p := range w.stream.parts {
		p.wait(nil)
		for _, e := range p.result {
			if !w.send(carry(e)) {
				for range w.stream.parts {
					// The stream ends because it was stopped.
				}
				return
			}
		}
	}
	if w.stream.err != nil {
		w.send(carry(event[T]{kind: watch.Error, err: w.stream.err, cut: !w.stream.unreadable()}))
	}
}

// send returns false after Stop. It checks for Stop first: the stream may have dropped parts since,
// and the next part would follow a gap.
func (w *resourceWatch[T]) send(e watch.Event) bool {
	select {
	case <-w.stream.stopped:
		return false
	default:
	}
	select {
	case w.events <- e:
		return true
	case <-w.stream.stopped:
		return false
	}
}

// carry converts an event to a watch.Event, which can only hold a runtime.Object.
func carry[T Object](e event[T]) watch.Event {
	var status apierrors.APIStatus
	object, ok := any(e.object).(runtime.Object)
	switch {
	case e.kind == watch.Error && errors.As(e.err, &status):
		s := status.Status()
		object = &s
	case e.kind == watch.Bookmark && e.err == nil:
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: e.version}}
		if e.closing {
			m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		object = m
	case !ok || e.err != nil || e.lacking != nil:
		object = carried[T]{e}
	}
	return watch.Event{Type: e.kind, Object: object}
}

// carried wraps an event as the object of a watch.Event.
type carried[T Object] struct{ event event[T] }

// GetObjectKind says that there is no kind.
func (carried[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns c itself: no code changes it.
func (c carried[T]) DeepCopyObject() runtime.Object { return c }

// carriedTogether wraps events that the reflector handles together, like the events of a stream.
type carriedTogether[T Object] struct{ events []event[T] }

// GetObjectKind says that there is no kind.
func (carriedTogether[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns c itself: no code changes it.
func (c carriedTogether[T]) DeepCopyObject() runtime.Object { return c }
