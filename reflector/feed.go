package reflector

import (
	"context"

	"github.com/kubereflector/kubereflector/store"
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

// feed is an open watch. Either watch delivers single events, or stream delivers batches. The zero
// feed has no watch.
type feed[T Object] struct {
	watch  watch.Interface
	stream *wireWatch[T]
	cancel context.CancelCauseFunc // of the watch's context
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

// events returns nil if the feed has no watch.
func (f feed[T]) events() <-chan watch.Event {
	if f.watch == nil {
		return nil
	}
	return f.watch.ResultChan()
}

// parts returns nil if the feed has no stream.
func (f feed[T]) parts() <-chan *part[[]event[T]] {
	if f.stream == nil {
		return nil
	}
	return f.stream.parts
}

// complete tells the decoding goroutines that the initial events are over. The reflector calls it
// before it replaces the store's content, which they compare with. From then on, only a few objects
// arrive at a time.
func (f feed[T]) complete() {
	if f.stream != nil {
		f.stream.held.shut()
		f.stream.of.keepFew()
	}
}
