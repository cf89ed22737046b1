package stream

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Frames supplies the undecoded events of a watch.
type Frames interface {
	// Next waits for more. It returns io.EOF when there is no more. The batch may be nil.
	Next(ctx context.Context) (*wire.Batch, Others, error)
	Close()
}

// Others reports events of other shards, which a shared watch leaves out. They followed the frames
// of the batch.
type Others struct {
	Count   int
	Version string // of the last of them
	// Added is true if objects of other members were added and the watch-list continues.
	Added bool
}

// OthersEvent returns an event that stands for the events of other shards. If there is only the
// progress of a watch-list, the event is a bookmark without a version. It returns false if there is
// nothing to report.
func OthersEvent[T Object](o Others) (Event[T], bool) {
	e := Event[T]{Type: watch.Modified, OutOfShard: o.Count}
	switch {
	case o.Count == 0:
		return Event[T]{Type: watch.Bookmark}, o.Added
	case o.Added:
		e.Type = watch.Added
	}
	e.ResourceVersion = o.Version
	return e, true
}

// ResponseFrames reads the frames of a response.
type ResponseFrames struct {
	response *Response
	limit    int
	format   wire.Format
	watch    *wire.Watch // nil before the first frame
}

// Frames returns the frames of a response.
func (r *Reader[T]) Frames(from *Response) *ResponseFrames {
	return &ResponseFrames{response: from, limit: r.MaxObjectBytes}
}

// Response returns the response that the frames come from.
func (f *ResponseFrames) Response() *Response { return f.response }

// Next reads the frames that have arrived.
func (f *ResponseFrames) Next(context.Context) (*wire.Batch, Others, error) {
	if f.watch == nil {
		format, body, err := f.response.open()
		if err != nil {
			return nil, Others{}, err
		}
		f.format, f.watch = format, wire.NewWatch(body, format, f.limit)
	}
	batch, err := f.watch.Next()
	if err != nil && err != io.EOF {
		err = f.response.Fail(f.watch.Head(), err)
	}
	if batch != nil {
		batch.Format = f.format
	}
	return batch, Others{}, err
}

// Close closes the response.
func (f *ResponseFrames) Close() { f.response.Close() }

// bookmark is the content of a bookmark.
type bookmark struct {
	version string
	closing bool // it ends the initial events
}

// readBookmark decodes a bookmark. Its object has only a version and, after the first objects of a
// watch-list, an annotation. A frame without an object is an error, too.
func readBookmark(format wire.Format, frame *wire.Frame) (bookmark, error) {
	var object metav1.PartialObjectMetadata
	if frame.Object == nil {
		return bookmark{}, wire.ErrMalformed
	}
	if err := wire.Unmarshal(format, frame.Object, &object); err != nil {
		return bookmark{}, err
	}
	return bookmark{object.ResourceVersion, object.Annotations[metav1.InitialEventsAnnotationKey] == "true"}, CheckVersion(object.ResourceVersion)
}

// Skip says which objects a Reader leaves out. The zero value leaves out none.
type Skip struct {
	Holds  HoldsFunc // if not nil: skip objects that the store holds
	Shards *Shards   // skip objects outside these shards
}

// HoldsFunc reports whether the store holds an object at a version, and with the content that has a
// hash, so that the decoder can skip it. It is nil if the decoder must decode every object.
type HoldsFunc func(key store.Key, version store.Version, hash uint64) bool
