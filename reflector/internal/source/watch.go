package source

import (
	"context"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch turns a stream into a watch.Interface, for code that wraps a client. A reflector
// takes the stream instead of the channel, because a watch.Event can only hold a runtime.Object.
type Watch[T Object] struct {
	stream Stream[T]
	events chan watch.Event
	ctx    context.Context // until the watch is stopped
	cancel context.CancelFunc
	begin  sync.Once
}

func NewWatch[T Object](ctx context.Context, of Stream[T]) *Watch[T] {
	w := &Watch[T]{stream: of, events: make(chan watch.Event)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Stream returns the stream. It returns nil if self is a wrapper of the watch.
func (w *Watch[T]) Stream(self any) (taken Stream[T]) {
	if self != any(w) {
		return nil
	}
	w.begin.Do(func() { taken = w.stream })
	return taken
}

func (w *Watch[T]) Stop() {
	w.cancel()
	w.ResultChan()
}

func (w *Watch[T]) ResultChan() <-chan watch.Event {
	w.begin.Do(func() { go w.run() })
	return w.events
}

func (w *Watch[T]) run() {
	defer close(w.events)
	defer w.cancel()
	defer func() { _ = w.stream.Close() }() // the stream of a Resource always closes
	for {
		events, err := w.stream.Next(w.ctx, nil)
		if err != nil {
			return
		}
		for i := range events {
			if e := &events[i]; e.OutOfShard == 0 && !w.send(watchEvent(e)) {
				return
			}
		}
	}
}

func (w *Watch[T]) send(e watch.Event) bool {
	if w.ctx.Err() != nil {
		return false
	}
	select {
	case w.events <- e:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// watchEvent converts an event to a watch.Event. An event without a runtime.Object becomes an ERROR
// event with a status.
func watchEvent[T Object](e *Event[T]) watch.Event {
	object, ok := any(e.Object).(runtime.Object)
	err := e.Err
	switch {
	case err != nil:
	case e.Rejection != nil:
		err = e.Rejection.Err
	case e.Type == watch.Bookmark:
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: e.ResourceVersion}}
		if e.InitialEventsEnd {
			m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		object = m
	case !ok:
		err = NewTypeError[runtime.Object](nil)
	}
	if err == nil {
		return watch.Event{Type: e.Type, Object: object}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return watch.Event{Type: watch.Error, Object: &s}
	}
	failure := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
	if e.Cut { // client-go marks a broken connection like this, and package protocol recognizes it
		failure.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ClientWatchDecoding", Message: err.Error()}}}
	}
	return watch.Event{Type: watch.Error, Object: failure}
}
