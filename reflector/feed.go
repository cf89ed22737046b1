package reflector

import (
	"context"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// event is an event of a watch, as a reflector takes it.
type event[T Object] struct {
	kind    watch.EventType
	version string // of the object, or of the bookmark
	object  T
	// lacking takes the place of an object that could not be decoded.
	lacking *store.Rejection
	// unchanged takes the place of objects that are held as they are.
	unchanged []store.Key
	// foreign is how many objects that are not in the shards the event stands for instead;
	// departed is the one, if the store may hold it all the same.
	foreign  int
	departed *departure
	key      store.Key
	closing  bool // the bookmark ends the initial events
	// err makes the watch useless; it is about the object under key, if that is known. If
	// cut is true, it is only why the watch ended.
	err error
	cut bool
}

// feed is an open watch: one that gives events one by one, or one that gives what has
// come. The zero feed is none.
type feed[T Object] struct {
	watch  watch.Interface
	stream *wireWatch[T]
	cancel context.CancelCauseFunc // of the context that it was opened with
}

func (f feed[T]) open() bool { return f.watch != nil || f.stream != nil }

func (f feed[T]) stop() {
	if f.watch != nil {
		f.watch.Stop()
	}
	if f.stream != nil {
		f.stream.stop()
	}
	if f.cancel != nil {
		f.cancel(nil)
	}
}

// events is nil unless there is a watch.
func (f feed[T]) events() <-chan watch.Event {
	if f.watch == nil {
		return nil
	}
	return f.watch.ResultChan()
}

// parts is nil unless there is a stream.
func (f feed[T]) parts() <-chan *part[[]event[T]] {
	if f.stream == nil {
		return nil
	}
	return f.stream.parts
}

// complete tells those who decode that the first objects have come: the store is not as they
// know it any more, and few objects come at a time.
func (f feed[T]) complete() {
	if f.stream != nil {
		f.stream.held.shut()
		f.stream.of.keepFew()
	}
}
