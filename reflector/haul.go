package reflector

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// haul is the result of one read from a watch: a batch of a Resource's frames, or events of another
// client.
type haul struct {
	batch  *wire.Batch
	events []watch.Event
	// passed counts the objects of other shards that followed, and that the member omits. version
	// is the version of the last of them.
	passed  int
	version revision
	// added is true if objects of other members were added and the watch-list continues.
	added bool
}

// frameSource supplies the frames of a Resource's watch.
type frameSource interface {
	// next waits for more. It returns io.EOF when there is no more.
	next(ctx context.Context) (haul, error)
	close()
}

// answerFrames reads the frames of an answer.
type answerFrames struct {
	answer *answer
	limit  int
	format wire.Format
	watch  *wire.Watch // nil before the first frame
}

func (f *answerFrames) next(context.Context) (haul, error) {
	if f.watch == nil {
		format, body, err := f.answer.open()
		if err != nil {
			return haul{}, err
		}
		f.format, f.watch = format, wire.NewWatch(body, format, f.limit)
	}
	batch, err := f.watch.Next()
	if err != nil && err != io.EOF {
		err = f.answer.fail(f.watch.Head(), err)
	}
	if batch != nil {
		batch.Format = f.format
	}
	return haul{batch: batch}, err
}

func (f *answerFrames) close() { f.answer.close() }

// clientEvents reads the events of a client's watch.
type clientEvents struct {
	watch watch.Interface
	one   [1]watch.Event // the last event
}

func (c *clientEvents) next(ctx context.Context) (haul, error) {
	select {
	case e, open := <-c.watch.ResultChan():
		if !open {
			return haul{}, io.EOF
		}
		c.one[0] = e
		return haul{events: c.one[:]}, nil
	case <-ctx.Done():
		return haul{}, ctx.Err()
	}
}

// close stops the watch, and waits for its end.
func (c *clientEvents) close() {
	c.watch.Stop()
	_ = source.Drain(c.watch.ResultChan())
}

// revision is a resource version as a number.
type revision uint64

// revisionOf converts a version to a number. It returns false for a version in another format than
// API servers use: such versions have no order.
func revisionOf[V string | []byte](version V) (revision, bool) {
	const digits = 19 // that a revision can hold
	if len(version) == 0 || len(version) > digits || version[0] == '0' {
		return 0, false
	}
	n := revision(0)
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + revision(digit)
	}
	return n, true
}

// notice is the information about an event that is available without decoding.
type notice struct {
	kind    noticeKind
	version revision
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

// size returns the number of events.
func (h *haul) size() int {
	if h.batch != nil {
		return len(h.batch.Frames)
	}
	return len(h.events)
}

// notice returns the notice of event i.
func (h *haul) notice(i int, by store.ShardKey) notice {
	if h.batch != nil {
		n := noticeFrame(h.batch.Format, &h.batch.Frames[i], by)
		n.added = h.batch.Frames[i].Type == string(watch.Added)
		return n
	}
	n := noticeEvent(&h.events[i], by)
	n.added = h.events[i].Type == watch.Added
	return n
}

func noticeFrame(format wire.Format, frame *wire.Frame, by store.ShardKey) notice {
	switch watch.EventType(frame.Type) {
	case watch.Error:
		return notice{kind: refusing}
	case watch.Bookmark:
		var m metav1.PartialObjectMetadata
		if frame.Object == nil || unmarshal(format, frame.Object, &m) != nil {
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
		if unmarshal(format, frame.Object, &m) != nil || m.Name == "" {
			return notice{}
		}
		return noticeObject(&m, by)
	}
	version, ok := revisionOf(id.ResourceVersion)
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
	version, ok := revisionOf(m.GetResourceVersion())
	if !ok {
		return notice{}
	}
	return notice{kind: marking, version: version, closing: m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
}

func noticeObject(m metav1.Object, by store.ShardKey) notice {
	version, ok := revisionOf(m.GetResourceVersion())
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
