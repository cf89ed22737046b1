package stream

import (
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// gate filters out added objects that the store already holds with the same content, so that the
// decoders skip them. It works until the reflector is about to change the store, and calls shut. The reading goroutine
// calls all other methods: a look at the metadata is quicker than handing the object to another
// goroutine.
type gate struct {
	mu    sync.Mutex
	holds HoldsFunc // guarded by mu; nil when the gate is shut

	shards *Shards
	ids    identities
	// withoutManagedFields is that of the Reader.
	withoutManagedFields bool

	kept   []store.Key // keys of filtered objects, until pass returns them
	newest string      // the version of the last filtered object
	passed time.Time
	met    map[store.Key]struct{} // the objects that remain in the batch
}

const (
	// pass combines at most about mostKept filtered objects into one event. It returns fewer after
	// longKept, so that the reflector notices progress of a slow server.
	mostKept = 512
	longKept = 100 * time.Millisecond
)

// shut ends the filtering: the decoders decode every later object.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = nil
}

// keepBack removes from a batch the added objects that the store holds. pass may report them before
// the rest of the batch. So keepBack removes no object after an event that is, or may be, about the
// same object.
func (g *gate) keepBack(format wire.Format, batch *wire.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holds == nil {
		g.met = nil
		return
	}
	clear(g.met)
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

// ask reports whether the store holds the object of a frame, and records it. It returns false for
// plain if the object of the frame is unclear; then keepBack must keep all later frames.
func (g *gate) ask(format wire.Format, frame *wire.Frame) (held, plain bool) {
	kind := watch.EventType(frame.Type)
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		if b, err := readBookmark(format, frame); b.closing || err != nil {
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
	if _, met := g.met[key]; kind == watch.Added && !met && g.holds(key, version, frame.Hash) && g.inShard(format, frame.Object) {
		if g.kept == nil {
			g.kept = make([]store.Key, 0, mostKept)
		}
		g.kept, g.newest = append(g.kept, key), version.ResourceVersion
		return true, true
	}
	if g.met == nil {
		g.met = make(map[store.Key]struct{})
	}
	g.met[key] = struct{}{}
	return false, true
}

// inShard reports whether an object is certainly in one of the shards.
func (g *gate) inShard(format wire.Format, data []byte) bool {
	from, _ := originOf(g.shards, format, data)
	return from == inShard
}

// pass returns the keys of the filtered objects, and the version of the last one. It returns no keys
// if there are none, or if they can wait for more. They cannot wait if another event follows.
func (g *gate) pass(now time.Time, follows bool) (keys []store.Key, version string) {
	n := len(g.kept)
	if n == 0 || !follows && n < mostKept && now.Sub(g.passed) < longKept {
		return nil, ""
	}
	keys = g.kept
	g.kept, g.passed = nil, now
	return keys, g.newest
}
