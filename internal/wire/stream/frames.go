package stream

import (
	"io"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frames reads the undecoded events of a watch from a response.
type frames struct {
	response *Response
	limit    int
	format   wire.Format
	watch    *wire.Watch // nil before the first frame
}

// next reads the frames that have arrived. It returns io.EOF when there is no more. The batch may be
// nil.
func (f *frames) next() (*wire.Batch, error) {
	if f.watch == nil {
		format, body, err := f.response.open()
		if err != nil {
			return nil, err
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
	return batch, err
}

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
