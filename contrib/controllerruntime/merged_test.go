package controllerruntime

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is a server whose two watches, of metadata and of owned objects, deliver its changes at
// their own pace.
type history struct {
	random  *rand.Rand
	changes []change
	objects map[string]*corev1.Secret
	absent  map[string]int // the last version at which an object did not exist
	caches  [2]*store.Cache[client.Object]
	sent    [2]int // the changes that the caches have
}

type change struct {
	name     string
	old, new *corev1.Secret
	version  string
}

func (h *history) version() int { return len(h.changes) + 1 }

// step makes a change of an object, or lets a watch go on.
func (h *history) step() {
	switch h.random.IntN(12) {
	case 0, 1, 2, 3:
		h.change(strconv.Itoa(h.random.IntN(2)))
	case 4, 5, 6:
		h.send(0)
	case 7, 8, 9:
		h.send(1)
	case 10:
		h.list(h.random.IntN(2))
	case 11:
		h.bookmark(h.random.IntN(2))
	}
}

func (h *history) bookmark(to int) {
	if h.sent[to] == len(h.changes) {
		must(h.caches[to].Bookmark(strconv.Itoa(h.version())))
	}
}

func (h *history) change(name string) {
	old := h.objects[name]
	c := change{name: name, old: old, version: strconv.Itoa(h.version() + 1)}
	if old == nil || h.random.IntN(4) > 0 {
		c.new = secret("ns", name, []string{"mine", "theirs"}[h.random.IntN(2)], c.version)
		c.new.UID, c.new.ResourceVersion = types.UID("u"+c.version), c.version
		if old != nil {
			c.new.UID = old.UID
		}
	}
	h.changes = append(h.changes, c)
	if h.objects[name] = c.new; c.new == nil {
		h.absent[name] = h.version()
	}
}

// seen returns a state as a watch delivers it, or nil.
func seen(by int, o *corev1.Secret) client.Object {
	switch {
	case o == nil || by == 1 && !mine.Matches(labels.Set(o.Labels)):
		return nil
	case by == 0:
		return &corev1.Secret{ObjectMeta: o.ObjectMeta}
	}
	return o
}

// send delivers the next change to a watch.
func (h *history) send(to int) {
	if h.sent[to] == len(h.changes) {
		return
	}
	c := h.changes[h.sent[to]]
	h.sent[to]++
	if now := seen(to, c.new); now != nil {
		must(h.caches[to].Update(now))
	} else if old := seen(to, c.old); old != nil {
		last := old.DeepCopyObject().(client.Object)
		last.SetResourceVersion(c.version)
		must(h.caches[to].Delete(last))
	}
}

func (h *history) list(to int) {
	var all []client.Object
	for _, o := range h.objects {
		if now := seen(to, o); now != nil {
			all = append(all, now)
		}
	}
	must(h.caches[to].Replace(all, strconv.Itoa(h.version())))
	h.sent[to] = len(h.changes)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// events checks the events of one handler.
type events struct {
	t    *testing.T
	of   *history
	last map[string]*corev1.Secret
}

func (*events) Start(*store.Snapshot[client.Object]) {}

func (e *events) Commit(commit *store.Commit[client.Object]) {
	for _, c := range commit.Changes {
		name, last := c.Key.Name, e.last[c.Key.Name]
		if c.Type == store.Deletion {
			require.NotNil(e.t, last, name)
			require.Greater(e.t, e.of.absent[name], number(e.t, last), "%s was not deleted", name)
			delete(e.last, name)
			continue
		}
		now := c.Object.(*corev1.Secret)
		if last != nil {
			require.Greater(e.t, number(e.t, now), number(e.t, last), name)
		}
		require.Equal(e.t, mine.Matches(labels.Set(now.Labels)), now.Data != nil, "only owned objects are whole")
		e.last[name] = now
	}
}

func number(t *testing.T, o metav1.Object) int {
	t.Helper()
	n, err := strconv.Atoi(o.GetResourceVersion())
	require.NoError(t, err)
	return n
}

// However the two watches interleave, a handler gets the states of each object in their order, a
// deletion only if the object was deleted, and the last state of each object in the end.
func TestEventsByReferenceAgainstAModel(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{random: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*corev1.Secret{}, absent: map[string]int{}}
			shown := store.New(store.ObjectKey[client.Object])
			for i := range h.caches {
				h.caches[i] = store.New(store.ObjectKey[client.Object])
			}
			m := &merged{metas: &h.caches[0].View, owned: &h.caches[1].View, shown: &shown.View, selector: mine, into: shown,
				lagging: map[store.Key]bool{}, filled: make(chan struct{})}
			for _, cache := range h.caches {
				cache.Follow(m)
			}
			e := &events{t: t, of: h, last: map[string]*corev1.Secret{}}
			shown.Follow(e)
			for range h.random.IntN(5) {
				h.change(strconv.Itoa(h.random.IntN(2)))
			}
			first := h.random.IntN(2)
			h.list(first)
			h.change("0")
			h.list(1 - first)
			for range 200 {
				h.step()
				var all []any
				for _, o := range h.caches[1].All() {
					all = append(all, o)
				}
				for _, o := range m.current(all) { // a List
					require.Same(t, e.last[o.(client.Object).GetName()], o, "the handler knows it in this state")
				}
			}
			for to := range h.caches {
				for range h.changes {
					h.send(to)
				}
			}
			h.bookmark(h.random.IntN(2))
			maps.DeleteFunc(h.objects, func(_ string, o *corev1.Secret) bool { return o == nil })
			require.Equal(t, slices.Sorted(maps.Keys(h.objects)), slices.Sorted(maps.Keys(e.last)))
			for name, want := range h.objects {
				assert.Equal(t, want.ResourceVersion, e.last[name].ResourceVersion)
			}
			if len(h.changes) == h.sent[0] {
				assert.Empty(t, m.lagging)
			}
		})
	}
}
