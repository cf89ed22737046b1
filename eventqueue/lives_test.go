package eventqueue

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// peek returns the events of a queue without a trace: they do not count as handed over.
func peek(q *Queue[*thing]) []Event[*thing] {
	events := make([]Event[*thing], len(q.events))
	for i := range q.events {
		events[i] = q.events[i].Event
	}
	return events
}

// lives is a follower that numbers the lives of objects, from an addition to the
// deletion, and knows which of them were handed over. Lives with one key and one UID
// are of one object. An object that enters the predicate again begins another life.
type lives struct {
	policy
	asks  bool // the predicate of KeepIf may keep deletions of its own accord
	of    map[*thing]life
	byUID map[named]int
	begun int
	given map[int]int // object: its newest life that was handed over
}

type life struct{ object, number int }

type named struct {
	key store.Key
	uid types.UID
}

func newLives(p policy) *lives {
	return &lives{policy: p, of: map[*thing]life{}, byUID: map[named]int{}, given: map[int]int{}}
}

func (l *lives) Start(*store.Snapshot[*thing]) {}

func (l *lives) Commit(commit *store.Commit[*thing]) {
	for _, c := range commit.Changes {
		name := named{c.Key, c.Version.UID}
		object, known := l.byUID[name]
		now := l.of[c.Prior]
		switch {
		case c.Type == Addition:
			l.begun++
			now = life{l.begun, l.begun}
		case c.Type == Modification && l.keeps(c.Object) && !l.keeps(c.Prior):
			l.begun++
			now.number = l.begun
		}
		if known {
			l.join(now.object, object)
			now.object = object
		}
		l.of[c.Object] = now
		if name.uid != "" {
			l.byUID[name] = now.object
		}
	}
}

// join makes one object of two: one without a UID got the UID of an earlier one.
func (l *lives) join(object, earlier int) {
	if object == earlier {
		return
	}
	for o, of := range l.of {
		if of.object == object {
			l.of[o] = life{earlier, of.number}
		}
	}
	for name, of := range l.byUID {
		if of == object {
			l.byUID[name] = earlier
		}
	}
	if n, ok := l.given[object]; ok {
		delete(l.given, object)
		l.given[earlier] = max(l.given[earlier], n)
	}
}

// settled notes which events were handed over, and that the first n were acknowledged.
func (l *lives) settled(handed []Event[*thing], n int) {
	for i, e := range handed {
		now := l.of[e.Object]
		l.given[now.object] = max(l.given[now.object], now.number)
		if i < n && e.Type == Deletion && l.given[now.object] == now.number {
			delete(l.given, now.object)
		}
	}
}

// check asserts that a queue has no deletion of an object that was never handed over,
// unless that is Initial.
func (l *lives) check(t require.TestingT, q *Queue[*thing]) {
	for _, e := range peek(q) {
		if e.Type == Deletion && !e.PriorKnown && !e.Initial && !l.asks {
			require.Contains(t, l.given, l.of[e.Object].object, "deletion of version %s, which was never handed over", e.Object.version)
		}
	}
}

// checkEnd asserts that nothing that was handed over is gone without its deletion.
func (l *lives) checkEnd(t require.TestingT, held map[store.Key]*thing) {
	there := map[int]bool{}
	for _, o := range held {
		there[l.of[o].object] = true
	}
	for object := range l.given {
		require.True(t, there[object], "object %d is gone without its deletion", object)
	}
}

// TestModelCountsAnObjectThatCameBackAsHandedOver has an object leave the predicate and
// enter it again. The deletion is acknowledged after the addition behind it was handed over.
func TestModelCountsAnObjectThatCameBackAsHandedOver(t *testing.T) {
	p := policy{of: KeepLatest, most: 3, keep: func(o *thing) bool { return !strings.HasSuffix(o.version, "0") }}
	w := &world{c: p.collection(), con: newConsumer(p), lives: newLives(p)}
	defer w.c.Close()
	defer w.c.cache.Follow(w.lives)()
	put(t, w.c, at("a", "u", 1))
	for _, step := range []struct{ version, how string }{
		{"", "done"},
		{"20", "fail"}, // the deletion is handed over
		{"31", "put back having read the newest"},
		{"", "cancelled after some"},
		{"40", "done"}, // the deletion of version 31
	} {
		if step.version != "" {
			put(t, w.c, &thing{"a", "u", step.version})
		}
		releaseAll(w.c)
		require.True(t, w.takeOne(t))
		w.settle(0, step.how, 1)
	}
	require.Zero(t, w.c.Len())
}
