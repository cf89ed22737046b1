package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/internal/byreference"
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

	owned                     labels.Selector    // selects nothing if only the metadata is watched
	some, rejecting, restores bool               // some is true if a watch of owned objects runs
	bad                       [2]map[string]bool // the names that the caches reject
	epoch                     int                // how often the server was restored
	lost                      [2]bool            // whether a cache has to list, because the server was restored
}

type change struct {
	name     string
	old, new *corev1.Secret
	version  string
}

// version returns the version of the server. Versions of different epochs differ.
func (h *history) version() int {
	if len(h.changes) == 0 {
		return 10
	}
	n, err := strconv.Atoi(h.changes[len(h.changes)-1].version)
	must(err)
	return n
}

// step makes a change of an object, or lets a watch go on.
func (h *history) step() {
	if h.rejecting && h.random.IntN(8) == 0 {
		bad, name := h.bad[h.random.IntN(2)], strconv.Itoa(h.random.IntN(2))
		bad[name] = !bad[name]
	}
	if h.restores && h.epoch < 9 && h.random.IntN(20) == 0 {
		h.restore()
	}
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

// restore loses the last changes.
func (h *history) restore() {
	h.epoch++
	for range min(h.random.IntN(10), len(h.changes)) {
		last := h.changes[len(h.changes)-1]
		h.changes = h.changes[:len(h.changes)-1]
		h.objects[last.name] = last.old
	}
	h.lost = [2]bool{true, h.some}
}

// current reports whether a cache has all changes.
func (h *history) current(cache int) bool { return !h.lost[cache] && h.sent[cache] == len(h.changes) }

func (h *history) bookmark(to int) {
	if h.current(to) && (to == 0 || h.some) {
		must(h.caches[to].Bookmark(strconv.Itoa(h.version())))
	}
}

func (h *history) change(name string) {
	old := h.objects[name]
	c := change{name: name, old: old, version: strconv.Itoa((len(h.changes)+2)*10 + h.epoch)}
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
func (h *history) seen(by int, o *corev1.Secret) client.Object {
	switch {
	case o == nil || by == 1 && !h.owned.Matches(labels.Set(o.Labels)):
		return nil
	case by == 0:
		return &corev1.Secret{ObjectMeta: o.ObjectMeta}
	}
	return o
}

// send delivers the next change to a watch.
func (h *history) send(to int) {
	if h.lost[to] || to == 1 && !h.some || h.sent[to] == len(h.changes) {
		return
	}
	c := h.changes[h.sent[to]]
	h.sent[to]++
	if now := h.seen(to, c.new); now != nil {
		h.write(h.caches[to].Update(now))
	} else if old := h.seen(to, c.old); old != nil {
		last := old.DeepCopyObject().(client.Object)
		last.SetResourceVersion(c.version)
		must(h.caches[to].Delete(last))
	}
}

func (h *history) list(to int) {
	if to == 1 && !h.some {
		return // nothing runs
	}
	var all []client.Object
	for _, o := range h.objects {
		if now := h.seen(to, o); now != nil {
			all = append(all, now)
		}
	}
	h.write(h.caches[to].Replace(all, strconv.Itoa(h.version())))
	h.sent[to], h.lost[to] = len(h.changes), false
}

// write checks the error of a write. Caches may reject objects.
func (h *history) write(err error) {
	if _, ok := errors.AsType[*store.RejectedError](err); !ok {
		must(err)
	}
}

// index returns a function that panics for the names that a cache rejects.
func (h *history) index(of int) func(client.Object) []string {
	return func(o client.Object) []string {
		if h.bad[of][o.GetName()] {
			panic("rejected")
		}
		return nil
	}
}

// rejects reports whether a cache rejected an object.
func (h *history) rejects(name string) bool {
	key := store.Key{Namespace: "ns", Name: name}
	return slices.Contains(h.caches[0].Rejected(), key) || slices.Contains(h.caches[1].Rejected(), key)
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
			if e.of.epoch == 0 {
				require.Greater(e.t, e.of.absent[name], number(e.t, last), "%s was not deleted", name)
			}
			delete(e.last, name)
			continue
		}
		now := c.Object.(*corev1.Secret)
		if last != nil && e.of.epoch == 0 {
			require.Greater(e.t, number(e.t, now), number(e.t, last), name)
		}
		require.Equal(e.t, e.of.owned.Matches(labels.Set(now.Labels)), now.Data != nil, "only owned objects are whole")
		e.last[name] = now
	}
}

func number(t *testing.T, o metav1.Object) int {
	t.Helper()
	n, err := strconv.Atoi(o.GetResourceVersion())
	require.NoError(t, err)
	return n
}

// same checks that a handler has the current state of the objects that no cache rejected.
func (e *events) same() {
	for name, want := range e.of.objects {
		switch last := e.last[name]; {
		case e.of.rejects(name):
		case want == nil:
			require.Nil(e.t, last, name)
		default:
			require.NotNil(e.t, last, name)
			require.Equal(e.t, want.ResourceVersion, last.ResourceVersion, name)
		}
	}
}

// However the two watches interleave, a handler gets the states of each object in their order, a
// deletion only if the object was deleted, and the last state of each object in the end. Rejected
// objects do not hold back the events of others. After a restore of the server, the handler gets the
// states that the server has.
func TestEventsByReferenceAgainstAModel(t *testing.T) {
	for seed := range uint64(800) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{random: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*corev1.Secret{}, absent: map[string]int{},
				owned: mine, some: seed&12 < 12, rejecting: seed&1 > 0, restores: seed&2 > 0}
			if seed&12 == 12 {
				h.owned = labels.Nothing()
			}
			shown := store.New(store.ObjectKey[client.Object])
			for i := range h.caches {
				h.bad[i] = map[string]bool{}
				h.caches[i] = store.New(store.ObjectKey[client.Object])
				_, err := store.AddIndex(h.caches[i], "bad", h.index(i))
				require.NoError(t, err)
			}
			m := newMerged()
			m.into, m.shown, m.report = shown, &shown.View, func(context.Context, error) {}
			m.read = func(*store.View[client.Object]) func() { return func() {} }
			m.follow(&h.caches[0].View, nil)
			if h.some {
				m.addSource(&source{View: &h.caches[1].View, selector: h.owned})
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
				require.LessOrEqual(t, m.whole.Len(), len(e.last))
				for name, o := range e.last { // a List
					whole, held := m.whole.Get(store.Key{Namespace: "ns", Name: name})
					require.Equal(t, o.Data != nil, held, name)
					if held {
						require.Equal(t, o.ResourceVersion, whole.GetResourceVersion(), name)
					}
				}
				if h.current(0) && (!h.some || h.current(1)) {
					e.same()
				}
			}
			h.bad = [2]map[string]bool{}
			for to := range h.caches {
				if h.lost[to] || len(h.caches[to].Rejected()) > 0 {
					h.list(to)
				}
				for range h.changes {
					h.send(to)
				}
			}
			h.bookmark(h.random.IntN(2))
			e.same()
			assert.Zero(t, m.engine.Open())
		})
	}
}

// An object that was rejected at first is shown after the next list, though it has not changed.
func TestRejectedFirstObjectIsShownAfterTheNextList(t *testing.T) {
	bad := true
	index := func(client.Object) []string {
		if bad {
			panic("rejected")
		}
		return nil
	}
	for name, where := range map[string]func(*merged, *store.Cache[client.Object]) *store.Cache[client.Object]{
		"by an index of the owned objects": func(m *merged, _ *store.Cache[client.Object]) *store.Cache[client.Object] { return m.whole },
		"by an index of what is shown":     func(_ *merged, shown *store.Cache[client.Object]) *store.Cache[client.Object] { return shown },
	} {
		t.Run(name, func(t *testing.T) {
			bad = true
			metas, owned, shown := store.New(store.ObjectKey[client.Object]), store.New(store.ObjectKey[client.Object]), store.New(store.ObjectKey[client.Object])
			m, failures := newMerged(), 0
			m.into, m.shown, m.report = shown, &shown.View, func(context.Context, error) { failures++ }
			m.read = func(*store.View[client.Object]) func() { return func() {} }
			m.follow(&metas.View, nil)
			m.addSource(&source{View: &owned.View, selector: mine})
			_, err := store.AddIndex(where(m, shown), "bad", index)
			require.NoError(t, err)
			object := secret("ns", "a", "mine", "1")
			object.UID, object.ResourceVersion = "u", "5"
			list := func(version string) {
				require.NoError(t, metas.Replace([]client.Object{&corev1.Secret{ObjectMeta: object.ObjectMeta}}, version))
				require.NoError(t, owned.Replace([]client.Object{object}, version))
			}
			list("9")
			assert.True(t, m.isFilled())
			assert.Equal(t, 1, failures)
			assert.Zero(t, shown.Len())
			bad = false
			list("10")
			assert.Equal(t, 1, shown.Len())
			assert.Equal(t, 1, m.whole.Len())
		})
	}
}

// mergedOf returns a merged over two caches that a test writes, and what it shows.
func mergedOf(report func(context.Context, error)) (m *merged, metas, owned, shown *store.Cache[client.Object]) {
	metas, owned, shown = store.New(store.ObjectKey[client.Object]), store.New(store.ObjectKey[client.Object]), store.New(store.ObjectKey[client.Object])
	m = newMerged()
	m.into, m.shown, m.report = shown, &shown.View, report
	m.read = func(*store.View[client.Object]) func() { return func() {} }
	m.follow(&metas.View, nil)
	m.addSource(&source{View: &owned.View, selector: mine})
	return m, metas, owned, shown
}

// at returns a secret at a version, and its metadata.
func at(name, app, version string) (whole, meta client.Object) {
	object := secret("ns", name, app, version)
	object.UID, object.ResourceVersion = types.UID(name), version
	return object, &corev1.Secret{ObjectMeta: object.ObjectMeta}
}

// Versions that cannot be compared hold back what the cache shows only until the next list of the watch.
func TestNextListEndsVersionsThatCannotBeCompared(t *testing.T) {
	t.Run("before the first objects are shown", func(t *testing.T) {
		var failures []error
		m, metas, owned, shown := mergedOf(func(_ context.Context, err error) { failures = append(failures, err) })
		whole, meta := at("a", "mine", "5")
		require.NoError(t, metas.Replace([]client.Object{meta}, ""))
		require.NoError(t, metas.Replace([]client.Object{meta}, ""))
		require.NoError(t, owned.Replace([]client.Object{whole}, "9"))
		assert.False(t, m.isFilled())
		require.Len(t, failures, 1, "it is one state, reported once")
		require.ErrorIs(t, failures[0], byreference.ErrVersions)
		require.NoError(t, metas.Replace([]client.Object{meta}, "9"))
		assert.True(t, m.isFilled())
		assert.Equal(t, 1, shown.Len())
	})
	t.Run("later", func(t *testing.T) {
		failures := 0
		m, metas, owned, shown := mergedOf(func(context.Context, error) { failures++ })
		whole, meta := at("a", "mine", "5")
		require.NoError(t, metas.Replace([]client.Object{meta}, "9"))
		require.NoError(t, owned.Replace([]client.Object{whole}, "9"))
		require.True(t, m.isFilled())
		_, other := at("b", "theirs", "v7")
		require.NoError(t, metas.Update(other))
		assert.Equal(t, 1, failures)
		late := labels.SelectorFromSet(labels.Set{"app": "late"})
		lateCache := store.New(store.ObjectKey[client.Object])
		p := m.addSource(&source{View: &lateCache.View, selector: late})
		lateWhole, lateMeta := at("c", "late", "10")
		require.NoError(t, lateCache.Replace([]client.Object{lateWhole}, "10"))
		_, other = at("b", "theirs", "11")
		newWhole, newMeta := at("a", "mine", "12")
		require.NoError(t, owned.Update(newWhole))
		assert.Equal(t, 1, shown.Len(), "nothing is shown meanwhile")
		assert.False(t, p.shown.Load())
		require.NoError(t, metas.Replace([]client.Object{newMeta, other, lateMeta}, "13"))
		assert.Equal(t, 3, shown.Len())
		assert.Equal(t, 2, m.whole.Len())
		assert.True(t, p.shown.Load(), "its objects are listed")
		now, _ := shown.Get(store.Key{Namespace: "ns", Name: "a"})
		assert.Equal(t, "12", now.GetResourceVersion())
		require.NoError(t, metas.Update(other))
		assert.Equal(t, 1, failures)
	})
	t.Run("of a watch that is dropped", func(t *testing.T) {
		failures := 0
		m, metas, owned, shown := mergedOf(func(context.Context, error) { failures++ })
		whole, meta := at("a", "mine", "5")
		require.NoError(t, owned.Replace([]client.Object{whole}, "v7"))
		require.NoError(t, metas.Replace([]client.Object{meta}, "9"))
		assert.False(t, m.isFilled())
		assert.Equal(t, 1, failures)
		dropped := m.owned[0]
		dropped.unread = func() {}
		m.drop(dropped)
		assert.True(t, m.isFilled())
		assert.Equal(t, 1, shown.Len())
	})
	t.Run("while the server is restored", func(t *testing.T) {
		_, metas, owned, shown := mergedOf(func(context.Context, error) {})
		_, meta := at("a", "theirs", "8")
		whole, _ := at("a", "mine", "50")
		require.NoError(t, metas.Replace([]client.Object{meta}, "9"))
		require.NoError(t, owned.Replace([]client.Object{whole}, "50"))
		_, text := at("b", "theirs", "v7")
		require.NoError(t, metas.Update(text))
		require.NoError(t, owned.Replace(nil, "9")) // only this watch has come so far that it sees the restore
		require.NoError(t, metas.Replace([]client.Object{meta}, "10"))
		now, _ := shown.Get(store.Key{Namespace: "ns", Name: "a"})
		assert.Equal(t, "8", now.GetResourceVersion())
		assert.Equal(t, 1, shown.Len())
	})
}

// A hook may read the version, which takes the lock of what is reported.
func TestFailuresAreReportedOutsideTheLock(t *testing.T) {
	var m *merged
	var metas, owned *store.Cache[client.Object]
	failures := 0
	m, metas, owned, _ = mergedOf(func(context.Context, error) {
		failures++
		_ = m.version()
	})
	_, err := store.AddIndex(m.whole, "bad", func(client.Object) []string { panic("rejected") })
	require.NoError(t, err)
	whole, meta := at("a", "mine", "5")
	require.NoError(t, metas.Replace([]client.Object{meta}, "9"))
	require.NoError(t, owned.Replace([]client.Object{whole}, "9"))
	assert.Equal(t, 1, failures)
}
