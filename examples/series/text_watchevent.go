package series

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// WatchEvent is one message of a watch. Its type is one of the four that the texts of 2018 and 2019
// name: ADDED, MODIFIED, DELETED, ERROR.
//
// Library: a reflector reads watch events, and its store gets writes instead of them.
type WatchEvent[T Object] struct {
	Type   watch.EventType
	Object T              // as it is after the change; after a deletion, as it was at the end
	Status *metav1.Status // of an ERROR, which has no object
}

// ReadEvents reads the body of a watch. The server does not know how long the body becomes, so it sends
// it in chunks (RFC 9112, section 7.1), and the client reads one event after the other while the
// connection stays open.
func ReadEvents[T Object](body io.Reader) iter.Seq2[WatchEvent[T], error] {
	return func(yield func(WatchEvent[T], error) bool) {
		for decoder := json.NewDecoder(body); ; {
			event, err := readEvent[T](decoder)
			if errors.Is(err, io.EOF) { // the server ended the watch, after half an hour to an hour
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func readEvent[T Object](decoder *json.Decoder) (event WatchEvent[T], err error) {
	var message struct {
		Type   watch.EventType
		Object json.RawMessage // what it is depends on the type
	}
	if err := decoder.Decode(&message); err != nil {
		return event, err
	}
	event.Type = message.Type
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		err = json.Unmarshal(message.Object, &event.Object)
	case watch.Error:
		event.Status = &metav1.Status{}
		err = json.Unmarshal(message.Object, event.Status)
	default: // the Java outcome throws an exception here
		err = fmt.Errorf("the watch sent an event of the unknown type %s", event.Type)
	}
	return event, err
}

// Apply is what a Reflector does with each message: it calls the method of the store.
func (e WatchEvent[T]) Apply(store ReflectorStore[T]) error {
	switch e.Type {
	case watch.Added:
		return store.Add(e.Object)
	case watch.Modified:
		return store.Update(e.Object)
	case watch.Deleted:
		return store.Delete(e.Object)
	default:
		return apierrors.FromObject(e.Status)
	}
}
