package sharedwatch

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Batch is the result of one read from a watch: a batch of a Resource's frames, or events of
// another client.
type Batch struct {
	Frames *wire.Batch
	Events []watch.Event
	// OutOfShard counts the objects of other shards that followed, and that the member omits.
	// Version is the version of the last of them.
	OutOfShard int
	Version    source.Revision
	// Added is true if objects of other members were added and the watch-list continues.
	Added bool
}

// Upstream is an open watch whose events are not yet split by shard.
type Upstream interface {
	// Next waits for more. It returns io.EOF when there is no more.
	Next(ctx context.Context) (Batch, error)
	// Response returns the response that the frames come from, for errors that quote it. It returns
	// nil if a client decodes the events.
	Response() any
	Close()
}

// ClientEvents reads the events of a client's watch.
type ClientEvents struct {
	Watch watch.Interface
	one   [1]watch.Event // the last event
}

func (c *ClientEvents) Next(ctx context.Context) (Batch, error) {
	select {
	case e, open := <-c.Watch.ResultChan():
		if !open {
			return Batch{}, io.EOF
		}
		c.one[0] = e
		return Batch{Events: c.one[:]}, nil
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
}

// Response returns nil.
func (c *ClientEvents) Response() any { return nil }

// Close stops the watch, and waits for its end.
func (c *ClientEvents) Close() {
	c.Watch.Stop()
	_ = stream.Drain(c.Watch.ResultChan())
}

// notice is the information about an event that is available without decoding.
type notice struct {
	kind    noticeKind
	version source.Revision
	hash    uint64 // of the UID or namespace, which determines the shard of a changed object
	added   bool   // the object is new
	closing bool   // the bookmark ends the initial events
}

type noticeKind uint8

const (
	strange  noticeKind = iota // unreadable, or without a usable version
	changing                   // an object was added, modified or deleted
	marking                    // a bookmark
	refusing                   // an ERROR event
)

// Size returns the number of events.
func (h *Batch) Size() int {
	if h.Frames != nil {
		return len(h.Frames.Frames)
	}
	return len(h.Events)
}

// notice returns the notice of event i.
func (h *Batch) notice(i int, by store.ShardKey) notice {
	if h.Frames != nil {
		n := noticeFrame(h.Frames.Format, &h.Frames.Frames[i], by)
		n.added = h.Frames.Frames[i].Type == string(watch.Added)
		return n
	}
	n := noticeEvent(&h.Events[i], by)
	n.added = h.Events[i].Type == watch.Added
	return n
}

func noticeFrame(format wire.Format, frame *wire.Frame, by store.ShardKey) notice {
	switch watch.EventType(frame.Type) {
	case watch.Error:
		return notice{kind: refusing}
	case watch.Bookmark:
		var m metav1.PartialObjectMetadata
		if frame.Object == nil || wire.Unmarshal(format, frame.Object, &m) != nil {
			return notice{}
		}
		return noticeBookmark(&m)
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return notice{}
	}
	if frame.Object == nil || !frame.Single() {
		return notice{}
	}
	id, ok := wire.Peek(format, frame.Object)
	if !ok {
		var m metav1.PartialObjectMetadata
		if wire.Unmarshal(format, frame.Object, &m) != nil || m.Name == "" {
			return notice{}
		}
		return noticeObject(&m, by)
	}
	version, ok := source.RevisionOf(id.ResourceVersion)
	if !ok {
		return notice{}
	}
	n := notice{kind: changing, version: version}
	if by == store.ByNamespace {
		n.hash = store.ShardHash(id.Namespace)
	} else {
		n.hash = store.ShardHash(id.UID)
	}
	return n
}

func noticeEvent(e *watch.Event, by store.ShardKey) notice {
	if e.Type == watch.Error {
		return notice{kind: refusing}
	}
	m := source.MetadataOf(e.Object)
	switch {
	case m == nil:
	case e.Type == watch.Bookmark:
		return noticeBookmark(m)
	case e.Type == watch.Added || e.Type == watch.Modified || e.Type == watch.Deleted:
		return noticeObject(m, by)
	}
	return notice{}
}

func noticeBookmark(m metav1.Object) notice {
	version, ok := source.RevisionOf(m.GetResourceVersion())
	if !ok {
		return notice{}
	}
	return notice{kind: marking, version: version, closing: m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
}

func noticeObject(m metav1.Object, by store.ShardKey) notice {
	version, ok := source.RevisionOf(m.GetResourceVersion())
	if !ok {
		return notice{}
	}
	n := notice{kind: changing, version: version}
	if by == store.ByNamespace {
		n.hash = store.ShardHash(m.GetNamespace())
	} else {
		n.hash = store.ShardHash(string(m.GetUID()))
	}
	return n
}
