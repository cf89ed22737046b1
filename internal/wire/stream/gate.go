package stream

import (
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// gate filters out added objects of a watch-list that the store already holds with the same content,
// so that the decoders skip them. It works until the reflector is about to change the store, and
// calls shut. The reading goroutine calls all other methods: a look at the metadata is quicker than
// handing the object to another goroutine.
type gate struct {
	mu    sync.Mutex
	holds HoldsFunc // guarded by mu; nil when the gate is shut

	shards *Shards
	ids    identities
	// withoutManagedFields is that of the Reader.
	withoutManagedFields bool

	removed  []store.Key            // keys of the objects that filter removed from batches, until it returns them
	newest   string                 // the version of the last one
	returned time.Time              // when filter last returned keys
	passed   map[store.Key]struct{} // the objects that remain in the batch
}

const (
	// filter combines at most about mostRemoved objects into one item. It returns fewer after
	// longestWait, so that the reflector notices progress of a slow server.
	mostRemoved = 512
	longestWait = 100 * time.Millisecond
)

// shut ends the filtering: the decoders decode every later object.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = nil
}

// filter removes from a batch the added objects that the store holds; the batch is nil at the end of
// the watch. It returns the keys of those that it removed so far, and the version of the last one,
// unless they can wait for more. They cannot wait if another event follows: they come before the
// rest of the batch. So filter removes no object after an event that is, or may be, about the same
// object.
func (g *gate) filter(format wire.Format, batch *wire.Batch, now time.Time) (keys []store.Key, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holds == nil {
		g.passed = nil
	} else if batch != nil {
		clear(g.passed)
		left := 0
		for i := range batch.Frames {
			frame := &batch.Frames[i]
			held, plain := g.ask(format, frame)
			if held {
				continue
			}
			batch.Frames[left] = *frame
			left++
			if !plain {
				left += copy(batch.Frames[left:], batch.Frames[i+1:])
				break
			}
		}
		clear(batch.Frames[left:])
		batch.Frames = batch.Frames[:left]
	}
	follows := batch == nil || len(batch.Frames) > 0
	if n := len(g.removed); n == 0 || !follows && n < mostRemoved && now.Sub(g.returned) < longestWait {
		return nil, ""
	}
	keys = g.removed
	g.removed, g.returned = nil, now
	return keys, g.newest
}

// ask reports whether the store holds the object of a frame, and records it. It returns false for
// plain if the object of the frame is unclear; then all later frames must pass.
func (g *gate) ask(format wire.Format, frame *wire.Frame) (held, plain bool) {
	kind := watch.EventType(frame.Type)
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		if _, closing, err := readBookmark(format, frame); closing || err != nil {
			g.holds = nil // later events are changes, or may be: see Frame.Recut
			return false, false
		}
		return false, true
	default:
		return false, false
	}
	if frame.Object == nil {
		return false, false
	}
	key, version, outline, ok := g.ids.look(format, frame.Object, g.withoutManagedFields)
	if !ok || !frame.Single() {
		return false, false
	}
	frame.Hash = outline.Hash() // for the decoder, if the store has another content
	if _, passed := g.passed[key]; kind == watch.Added && !passed && g.holds(key, version, frame.Hash) {
		if from, _ := originOf(g.shards, format, frame.Object); from == inShard {
			if g.removed == nil {
				g.removed = make([]store.Key, 0, mostRemoved)
			}
			g.removed, g.newest = append(g.removed, key), version.ResourceVersion
			return true, true
		}
	}
	if g.passed == nil {
		g.passed = make(map[store.Key]struct{})
	}
	g.passed[key] = struct{}{}
	return false, true
}

// dropHeld removes from a batch the items of a list that the store holds, and appends their keys. The
// check is cheaper than handing the items to another goroutine.
func (d *decoder[T]) dropHeld(format wire.Format, batch *wire.Batch, w *Wants[T], keys []store.Key) []store.Key {
	left := 0
	for i := range batch.Frames {
		frame := &batch.Frames[i]
		if key, version, outline, ok := d.ids.look(format, frame.Object, d.of.WithoutManagedFields); ok {
			frame.Hash = outline.Hash() // for the decoder, if the store has another content
			if w.Holds(key, version, frame.Hash) {
				// An object outside of the shards shows that the store was filled with other shards.
				if from, _ := originOf(w.Shards, format, frame.Object); from == inShard {
					keys = append(keys, key)
					continue
				}
			}
		}
		batch.Frames[left] = *frame
		left++
	}
	clear(batch.Frames[left:])
	batch.Frames = batch.Frames[:left]
	return keys
}

// readBookmark decodes a bookmark. Its object has only a version and, after the first objects of a
// watch-list, an annotation. A frame without an object is an error, too.
func readBookmark(format wire.Format, frame *wire.Frame) (version string, closing bool, err error) {
	var object metav1.PartialObjectMetadata
	if frame.Object == nil {
		return "", false, wire.ErrMalformed
	}
	if err := wire.Unmarshal(format, frame.Object, &object); err != nil {
		return "", false, err
	}
	return object.ResourceVersion, object.Annotations[metav1.InitialEventsAnnotationKey] == "true", CheckVersion(object.ResourceVersion)
}

// identify returns the key and version of an object, even if its other fields are unreadable.
func identify(format wire.Format, data []byte) (store.Key, store.Version, bool) {
	if id, ok := wire.Peek(format, data); ok {
		return store.Key{Namespace: string(id.Namespace), Name: string(id.Name)},
			store.Version{UID: types.UID(id.UID), ResourceVersion: string(id.ResourceVersion)}, true
	}
	var m metav1.PartialObjectMetadata
	if err := wire.Unmarshal(format, data, &m); err != nil {
		return store.Key{}, store.Version{}, false
	}
	return store.Key{Namespace: m.Namespace, Name: m.Name}, store.Version{UID: m.UID, ResourceVersion: m.ResourceVersion}, true
}

// identities reads the identities of undecoded objects, and stores many of their strings in one piece
// of memory.
type identities struct{ b *strings.Builder }

// look returns the key, the version and the outline of an undecoded object. It returns false if a
// quick look at the bytes cannot determine them.
func (i *identities) look(format wire.Format, data []byte, withoutManagedFields bool) (store.Key, store.Version, wire.Outline, bool) {
	o, ok := wire.Look(format, data, withoutManagedFields)
	if !ok {
		return store.Key{}, store.Version{}, o, false
	}
	return store.Key{Namespace: i.text(o.Namespace), Name: i.text(o.Name)}, store.Version{UID: types.UID(i.text(o.UID)), ResourceVersion: i.text(o.ResourceVersion)}, o, true
}

func (i *identities) text(b []byte) string {
	const size = 16 << 10
	if i.b == nil || i.b.Cap()-i.b.Len() < len(b) {
		i.b = new(strings.Builder)
		i.b.Grow(max(size, len(b)))
	}
	start := i.b.Len()
	i.b.Write(b) // within the capacity, so earlier strings keep their memory
	return i.b.String()[start:]
}
