package stream

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Channel turns Items into a watch.Interface, for code that wraps a client. A reflector takes the
// items instead of the channel, because a watch.Event can only hold a runtime.Object.
type Channel[T Object] struct {
	items  Items[T]
	events chan watch.Event
	ctx    context.Context // until the watch is stopped
	cancel context.CancelFunc
	begin  sync.Once
}

// NewChannel returns a channel that ends with ctx, or when it is stopped.
func NewChannel[T Object](ctx context.Context, of Items[T]) *Channel[T] {
	w := &Channel[T]{items: of, events: make(chan watch.Event)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Items returns the items, once, and nil after the first use of the channel.
func (w *Channel[T]) Items() (taken Items[T]) {
	w.begin.Do(func() { taken = w.items })
	return taken
}

// Stop implements watch.Interface.
func (w *Channel[T]) Stop() {
	w.cancel()
	w.ResultChan()
}

// ResultChan implements watch.Interface.
func (w *Channel[T]) ResultChan() <-chan watch.Event {
	w.begin.Do(func() { go w.run() })
	return w.events
}

func (w *Channel[T]) run() {
	defer close(w.events)
	defer w.cancel()
	defer func() { _ = w.items.Close() }() // the watch of a Resource always closes
	for {
		items, err := w.items.Next(w.ctx, nil)
		if err != nil {
			return
		}
		for i := range items {
			if items[i].Kind == Outside {
				continue
			}
			if w.ctx.Err() != nil {
				return
			}
			select {
			case w.events <- eventOf(&items[i]):
			case <-w.ctx.Done():
				return
			}
		}
	}
}

// eventOf converts an item to a watch.Event. An item without a runtime.Object becomes an ERROR event
// with a status.
func eventOf[T Object](i *Item[T]) watch.Event {
	err := i.Err
	if err == nil {
		err = i.Write.Err
	}
	object, ok := any(i.Write.Object).(runtime.Object)
	switch {
	case err != nil:
	case i.Kind == Mark:
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: i.Version}}
		if i.Closing {
			m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return watch.Event{Type: watch.Bookmark, Object: m}
	case !ok:
		err = NewTypeError[runtime.Object](nil)
	case i.Kind == Delete:
		return watch.Event{Type: watch.Deleted, Object: object}
	case i.Write.Type == store.Addition:
		return watch.Event{Type: watch.Added, Object: object}
	default:
		return watch.Event{Type: watch.Modified, Object: object}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return watch.Event{Type: watch.Error, Object: &s}
	}
	failure := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
	if i.Kind == Ended { // client-go marks a broken connection like this, and package protocol recognizes it
		failure.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ClientWatchDecoding", Message: err.Error()}}}
	}
	return watch.Event{Type: watch.Error, Object: failure}
}
