package sharedwatch

import (
	"context"
	"io"
	"time"

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
	// Next waits for more. It returns io.EOF when there is no more. If a client decodes the events,
	// it returns stream.ErrAwake if wake delivers a value first.
	Next(ctx context.Context, wake <-chan time.Time) (Batch, error)
	// Response returns the response that the frames come from, for errors that quote it. It returns
	// nil if a client decodes the events.
	Response() any
	Close()
}

// ClientEvents reads the events of a client's watch.
type ClientEvents struct {
	Watch  watch.Interface
	Cancel context.CancelFunc // ends the context of the watch
	one    [1]watch.Event     // the last event
}

func (c *ClientEvents) Next(ctx context.Context, wake <-chan time.Time) (Batch, error) {
	select {
	case <-wake:
		return Batch{}, stream.ErrAwake
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

// Close stops the watch, and waits for its end. It cancels the context first, because the watches of
// some clients end only with their context.
func (c *ClientEvents) Close() {
	c.Cancel()
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
	if h.Frames == nil {
		return noticeEvent(&h.Events[i], by)
	}
	return noticeFrame(h.Frames.Format, &h.Frames.Frames[i], by)
}

func noticeFrame(format wire.Format, frame *wire.Frame, by store.ShardKey) notice {
	kind := watch.EventType(frame.Type)
	if kind == watch.Error {
		return notice{kind: refusing}
	}
	if frame.Object == nil || kind != watch.Bookmark && !frame.Single() {
		return notice{}
	}
	if kind != watch.Bookmark {
		if id, ok := wire.Peek(format, frame.Object); ok {
			return noticeChange(kind, id.ResourceVersion, id.Namespace, id.UID, by)
		}
	}
	var m metav1.PartialObjectMetadata
	if wire.Unmarshal(format, frame.Object, &m) != nil || kind != watch.Bookmark && m.Name == "" {
		return notice{}
	}
	return noticeObject(kind, &m, by)
}

func noticeEvent(e *watch.Event, by store.ShardKey) notice {
	if e.Type == watch.Error {
		return notice{kind: refusing}
	}
	if m := source.MetadataOf(e.Object); m != nil {
		return noticeObject(e.Type, m, by)
	}
	return notice{}
}

func noticeObject(kind watch.EventType, m metav1.Object, by store.ShardKey) notice {
	if kind != watch.Bookmark {
		return noticeChange(kind, m.GetResourceVersion(), m.GetNamespace(), string(m.GetUID()), by)
	}
	version, ok := source.RevisionOf(m.GetResourceVersion())
	if !ok {
		return notice{}
	}
	return notice{kind: marking, version: version, closing: m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
}

// noticeChange returns the notice of a change. It returns a strange one for another type of event.
func noticeChange[V string | []byte](kind watch.EventType, version, namespace, uid V, by store.ShardKey) notice {
	revision, ok := source.RevisionOf(version)
	if !ok || kind != watch.Added && kind != watch.Modified && kind != watch.Deleted {
		return notice{}
	}
	if by == store.ByNamespace {
		uid = namespace
	}
	return notice{kind: changing, version: revision, hash: store.ShardHash(uid), added: kind == watch.Added}
}
