package reflector

import (
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// gate keeps what is held from being decoded, until whoever holds it is about to change it. All
// but shut is for the goroutine that cuts: to look is quicker than to hand an object to somebody
// who does.
type gate[T Object] struct {
	mu    sync.Mutex
	holds holdsFunc // under mu; nil when the gate is shut

	kept   []store.Key // of objects that were kept back, until they are passed on
	newest string      // the version of the last of them
	passed time.Time
	met    map[store.Key]struct{} // the objects that are left in the batch
}

const (
	// So many objects that are held are one event, unless the last one was passed on so long
	// ago: a server that sends them slowly is to be seen alive.
	mostKept = 512
	longKept = 100 * time.Millisecond
)

// shut makes everything be decoded that was not asked for yet.
func (g *gate[T]) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = nil
}

// keepBack takes out of a batch the added objects that are held. They can be passed on before
// what is left: none is taken out once an event is left that is, or may be, about the same one.
func (g *gate[T]) keepBack(s *wireWatch[T], d *decoder[T], format wire.Format, batch *wire.Batch) {
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
		held, plain := g.ask(s, d, format, frame)
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

// ask reports whether a frame is of an object that is held, and notes it. If it is not clear what
// the frame is about, nothing after it is to be asked for.
func (g *gate[T]) ask(s *wireWatch[T], d *decoder[T], format wire.Format, frame *wire.Frame) (held, plain bool) {
	kind := watch.EventType(frame.Type)
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		if e, _ := s.bookmark(format, frame, event[T]{}); e.closing || e.err != nil {
			g.holds = nil // what comes now is news, or may be: see Frame.Recut
			return false, false
		}
		return false, true
	default:
		return false, false
	}
	if frame.Object == nil {
		return false, false
	}
	key, version, ok := d.peek(format, frame.Object)
	if !ok || !frame.Single() {
		return false, false
	}
	if _, met := g.met[key]; kind == watch.Added && !met && g.holds(key, version) && s.domestic(format, frame.Object) {
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

// pass returns the event of what was kept back, and false as long as there is none, or as it may
// wait for more. If something else follows it may not.
func (g *gate[T]) pass(now time.Time, follows bool) (event[T], bool) {
	n := len(g.kept)
	if n == 0 || !follows && n < mostKept && now.Sub(g.passed) < longKept {
		return event[T]{}, false
	}
	e := event[T]{kind: watch.Added, version: g.newest, unchanged: g.kept}
	g.kept, g.passed = nil, now
	return e, true
}
