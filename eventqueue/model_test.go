package eventqueue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// policy is a way to compact, and how many events of a key it keeps at most.
type policy struct {
	name   string
	of     Compaction
	keepIf func(Event[*thing]) bool
	most   int
	keep   func(*thing) bool // nil keeps everything
}

var policies = []policy{
	{name: "KeepAll", of: KeepAll, most: 1 << 30},
	{name: "KeepLatest", of: KeepLatest, most: 3},
	{name: "KeepIf", of: KeepAll, most: 1 << 30, keepIf: func(e Event[*thing]) bool { return len(e.Object.version)%3 == 1 }},
	{name: "KeepIf that keeps nothing", of: KeepAll, most: 3, keepIf: func(Event[*thing]) bool { return false }},
	{name: "KeepIf that panics", of: KeepAll, most: 3, keepIf: func(Event[*thing]) bool { panic("ouch") }},
}

func (p policy) collection(opts ...Option) *Collection[*thing] {
	c := FollowFiltered(store.New(store.ObjectKey[*thing]), p.keep, append(opts, WithCompaction(p.of))...)
	c.owned = true
	c.KeepIf(p.keepIf)
	return c
}

// keeps is what the predicate says of an object: no if it panics.
func (p policy) keeps(o *thing) (kept bool) {
	defer func() { _ = recover() }()
	return p.keep == nil || p.keep(o)
}

// consumer is a handler as the guarantees of the package see it: what it has
// acknowledged is all that it knows.
type consumer struct {
	policy
	known map[store.Key]*thing
	told  map[store.Key][]*thing // each object of which an event was acknowledged
}

func newConsumer(p policy) *consumer {
	return &consumer{p, map[store.Key]*thing{}, map[store.Key][]*thing{}}
}

// check holds a queue to the guarantees: it starts from what was acknowledged,
// and each event follows from the one before.
func (c *consumer) check(t require.TestingT, q *Queue[*thing]) {
	state := c.known[q.Key()]
	first := true
	for _, e := range peek(q) {
		require.Equal(t, q.Key(), e.Key)
		require.Equal(t, q.Key().Name, e.Object.name)
		switch e.Type {
		case Addition:
			require.Nil(t, state, "addition of an object that is there")
			require.False(t, e.PriorKnown)
		case Modification:
			require.NotNil(t, state, "modification of an object that is not there")
			require.Same(t, state, e.Prior)
		case Deletion:
			// One that was tried only is deleted without a known prior.
			require.Equal(t, state != nil, e.PriorKnown)
			if state != nil {
				require.Same(t, state, e.Prior)
			}
		}
		if first && c.known[q.Key()] != nil {
			require.Same(t, c.known[q.Key()], e.Prior, "the first prior is what was acknowledged")
		}
		first = false
		if state = e.Object; e.Type == Deletion {
			state = nil
		}
	}
	require.LessOrEqual(t, q.Len(), c.most)
}

// acknowledge notes that the first n events of a queue are done.
func (c *consumer) acknowledge(q *Queue[*thing], n int) {
	for _, e := range peek(q) {
		if n--; n < 0 {
			return
		}
		if e.Origin != Resync {
			c.told[e.Key] = append(c.told[e.Key], e.Object)
		}
		if c.known[e.Key] = e.Object; e.Type == Deletion {
			delete(c.known, e.Key)
		}
	}
}

// history is a follower that writes down every state that is kept, and of those that
// leave the last one.
type history struct {
	policy
	all map[store.Key][]*thing
}

func (h *history) Start(*store.Snapshot[*thing]) {}

func (h *history) Commit(commit *store.Commit[*thing]) {
	for _, c := range commit.Changes {
		switch {
		case c.Type == Deletion && h.keeps(c.Prior), c.Type != Deletion && h.keeps(c.Object):
			h.all[c.Key] = append(h.all[c.Key], c.Object)
		case c.Type == Modification && h.keeps(c.Prior):
			h.all[c.Key] = append(h.all[c.Key], c.Prior)
		}
	}
}

// TestCollectionAgainstAModel runs random histories of writes and of ways to
// settle, with several queues out at a time. Whatever happens, each queue is
// legal, in the end the consumer knows what the cache holds, and if every event is
// to be kept it was told of every single one.
func TestCollectionAgainstAModel(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { runModel(rt, policy) })
		})
		policy.keep = func(o *thing) bool {
			if strings.HasSuffix(o.version, "4") {
				panic("ouch")
			}
			return !strings.ContainsAny(o.version[len(o.version)-1:], "159")
		}
		t.Run(policy.name+", filtered", func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { runModel(rt, policy) })
		})
	}
}

// world is one run of the model.
type world struct {
	c       *Collection[*thing]
	con     *consumer
	lives   *lives
	uids    []string
	out     []*Queue[*thing]
	version int
}

func (w *world) draw(rt *rapid.T) *thing {
	w.version++
	return &thing{
		name:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"),
		uid:     types.UID(rapid.SampledFrom(w.uids).Draw(rt, "uid")),
		version: strconv.Itoa(w.version),
	}
}

func (w *world) takeOne(t require.TestingT) bool {
	q, err := tryTake(w.c)
	require.NoError(t, err)
	if q == nil {
		return false
	}
	for _, other := range w.out {
		require.NotEqual(t, other.Key(), q.Key(), "two queues of one key are out")
	}
	w.con.check(t, q)
	w.lives.check(t, q)
	w.out = append(w.out, q)
	return true
}

// ways are the ways to settle a queue. Those that say "some" stop after a number of events.
var ways = []string{"done", "fail", "put back", "give up", "fail after some", "give up after some",
	"cancelled after some", "fail having read some", "put back having read the newest"}

// settle settles the queue at a place among those that are out.
func (w *world) settle(i int, how string, after int) {
	q := w.out[i]
	w.out = append(w.out[:i], w.out[i+1:]...)
	no := errors.New("no")
	handed, done := peek(q), 0
	each := func(err error) error {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		if err == nil && after == 0 {
			cancel(no)
		}
		n := 0
		err = q.Each(ctx, func(Event[*thing]) error {
			if n++; n > after {
				return err
			} else if n == after && err == nil {
				cancel(no)
			}
			return nil
		})
		handed = handed[:n]
		return err
	}
	switch how {
	case "done":
		done = q.Len()
		q.Done()
	case "fail":
		q.Fail(no)
	case "put back":
		q.Release()
	case "give up":
		done = q.Len()
		q.Fail(Permanent(no))
	case "fail after some":
		done = after
		q.Fail(each(no))
	case "give up after some":
		done = after + 1
		q.Fail(each(Permanent(no)))
	case "cancelled after some":
		done = after
		_ = each(nil)
		q.Release()
	case "fail having read some":
		handed = nil
		for e := range q.Events() {
			if handed = append(handed, e); len(handed) > after {
				break
			}
		}
		q.Fail(no)
	case "put back having read the newest":
		handed = []Event[*thing]{q.Newest()}
		q.Release()
	}
	w.con.acknowledge(q, done)
	w.lives.settled(handed, done)
}

func runModel(rt *rapid.T, p policy) {
	w := &world{c: p.collection(WithBackoff(time.Hour, time.Hour), WithPriority(rapid.Bool().Draw(rt, "priority"))), con: newConsumer(p), lives: newLives(p)}
	c := w.c
	defer c.Close()
	defer c.cache.Follow(w.lives)()
	w.uids = [][]string{{"u", "v"}, {"u", "v", ""}}[rapid.IntRange(0, 1).Draw(rt, "unknown UIDs")]
	w.lives.asks = p.name == "KeepIf"
	said := &history{p, map[store.Key][]*thing{}}
	defer c.cache.Follow(said)()
	rt.Repeat(map[string]func(*rapid.T){
		"put": func(rt *rapid.T) { require.NoError(rt, c.Add(w.draw(rt))) },
		"delete": func(rt *rapid.T) {
			o := w.draw(rt)
			if held, ok := c.Cache().Get(key(o.name)); ok {
				o.uid = held.uid
			}
			require.NoError(rt, c.Delete(o))
		},
		"replace": func(rt *rapid.T) {
			var next []*thing
			for _, o := range c.Cache().All() {
				if rapid.Bool().Draw(rt, "stays") {
					next = append(next, o)
				}
			}
			for range rapid.IntRange(0, 3).Draw(rt, "n") {
				next = append(next, w.draw(rt))
			}
			w.version++
			require.NoError(rt, c.Replace(next, strconv.Itoa(w.version)))
		},
		"release": func(*rapid.T) { releaseAll(c) },
		"resync":  func(*rapid.T) { c.Resync() },
		"take":    func(rt *rapid.T) { w.takeOne(rt) },
		"settle": func(rt *rapid.T) {
			if len(w.out) == 0 {
				rt.Skip()
			}
			i := rapid.IntRange(0, len(w.out)-1).Draw(rt, "which")
			w.settle(i, rapid.SampledFrom(ways).Draw(rt, "how"),
				rapid.IntRange(0, w.out[i].Len()-1).Draw(rt, "after"))
		},
		"": func(rt *rapid.T) { checkStats(rt, c, len(w.out)) },
	})

	w.version++
	require.NoError(rt, c.Replace(nil, strconv.Itoa(w.version)))
	require.NoError(rt, c.Add(w.draw(rt)))
	for len(w.out) > 0 {
		w.settle(0, "done", 0)
	}
	for c.Len() > 0 {
		if w.takeOne(rt) {
			w.settle(0, "done", 0)
		} else {
			releaseAll(c)
		}
	}
	held := map[store.Key]*thing{}
	for k, o := range c.Cache().All() {
		if p.keeps(o) {
			held[k] = o
		}
	}
	require.Equal(rt, held, w.con.known)
	// An object without a UID that gets one may become one with an earlier object.
	if c.Stats().Dropped == 0 && len(w.uids) == 2 {
		w.lives.checkEnd(rt, held)
	}
	require.True(rt, isClosed(c.Synced()))
	if p.of == KeepAll && p.keepIf == nil {
		require.Equal(rt, said.all, w.con.told)
	}
	checkStats(rt, c, 0)
}

// checkStats holds the statistics to what there is, counted one by one.
func checkStats(t require.TestingT, c *Collection[*thing], out int) {
	want := Stats{Keys: c.Len(), InFlight: out, Delayed: len(c.delayed)}
	for _, k := range c.keys {
		for b := range k.backlogs() {
			want.Events += len(b.events)
		}
		if k.waits() {
			want.Waiting++
		}
	}
	have := c.Stats()
	require.Equal(t, want, Stats{Keys: have.Keys, InFlight: have.InFlight, Delayed: have.Delayed, Waiting: have.Waiting, Events: have.Events})
	require.Equal(t, want.Keys > 0, have.Oldest > 0)
}

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
