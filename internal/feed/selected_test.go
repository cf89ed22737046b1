package feed

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var podA = podKey("a")

// version returns the pod in the state of a resource version.
func (h *layers) version(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: version}}
}

// layers are the caches of two selectors, without a server.
type layers struct {
	t           *testing.T
	of          *Selected[*corev1.Pod]
	shown, a, b *store.Cache[*corev1.Pod]
}

func newLayers(t *testing.T) *layers {
	h := &layers{t: t, shown: store.New(store.ObjectKey[*corev1.Pod])}
	m := NewSelected(Target[*corev1.Pod]{Cache: h.shown, Into: h.shown, Report: func(context.Context, error) {}}, nil, nil)
	h.of = m
	h.a, h.b = h.add("a"), h.add("b")
	return h
}

func (h *layers) add(selector string) *store.Cache[*corev1.Pod] {
	part, err := h.of.part(Place{Selector: selector})
	require.NoError(h.t, err)
	return part.(*store.Cache[*corev1.Pod])
}

func reject(pod *corev1.Pod) store.Write[*corev1.Pod] {
	return store.Write[*corev1.Pod]{Key: podA, Version: store.VersionOf(pod), Err: errors.New("bad")}
}

// shows checks which state the cache shows; empty for none.
func (h *layers) shows(want string) {
	h.t.Helper()
	got := ""
	if pod, ok := h.shown.Get(podA); ok {
		got = pod.ResourceVersion
	}
	assert.Equal(h.t, want, got)
}

func TestRejectedStateOfASelectorKeepsTheNewerOne(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.b.Replace([]*corev1.Pod{h.version("5")}, "5"))
	require.NoError(t, h.a.Replace([]*corev1.Pod{h.version("9")}, "9"))
	batch := h.b.BeginBatch(h.b, false)
	require.NoError(t, batch.Write(reject(h.version("9"))))
	require.Error(t, batch.Commit("11"))
	require.NoError(t, h.a.Delete(h.version("10")))
	h.shows("9")
	require.NoError(t, h.b.Update(h.version("12")))
	h.shows("12")
}

func TestRestoredServerEndsTheFloors(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.b.Replace(nil, "50"))
	require.NoError(t, h.a.Replace([]*corev1.Pod{h.version("100")}, "100"))
	require.NoError(t, h.a.Delete(h.version("110")))
	require.NoError(t, h.b.Update(h.version("60")))
	h.shows("") // from before the deletion
	require.NoError(t, h.a.Replace(nil, "65"))
	h.shows("60") // the server lost the deletion
}

// follower is called for each commit.
type follower func(*store.Commit[*corev1.Pod])

func (follower) Start(*store.Snapshot[*corev1.Pod]) {}

func (f follower) Commit(commit *store.Commit[*corev1.Pod]) { f(commit) }

// A layer shows a commit to readers before it follows. Until then, the merged cache lacks the commit.
func TestVersionDoesNotPassACommitThatIsNotShown(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.a.Replace(nil, "10"))
	require.NoError(t, h.b.Replace(nil, "30"))
	h.of.mu.Lock()
	done := make(chan error)
	go func() { done <- h.a.Update(h.version("20")) }()
	for _, ok := h.a.Get(podA); !ok; _, ok = h.a.Get(podA) {
		runtime.Gosched()
	}
	assert.Equal(t, "10", h.of.version())
	h.of.mu.Unlock()
	require.NoError(t, <-done)
	assert.Equal(t, "20", h.shown.ResourceVersion())
}

func TestRejectedObjectOfASelectorHoldsTheVersionBack(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.b.Replace(nil, "30"))
	batch := h.a.BeginBatch(h.a, true)
	require.NoError(t, batch.Write(reject(h.version("20"))))
	require.Error(t, batch.Commit("30"))
	other := h.version("40")
	other.Name = "other"
	require.NoError(t, h.b.Update(other))
	assert.Equal(t, 1, h.shown.Len())
	assert.NotEqual(t, "40", h.shown.ResourceVersion(), "the cache lacks version 20 of the pod")
}

// The changes of a commit have no order: they may come from several selectors.
func TestObjectThatTheCacheRejectsHoldsTheVersionBack(t *testing.T) {
	h := newLayers(t)
	_, err := store.AddIndex(&h.shown.View, "bad", func(pod *corev1.Pod) []string {
		if pod.ResourceVersion == "40" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.a.Replace(nil, "30"))
	require.NoError(t, h.b.Replace(nil, "30"))
	other := h.version("50")
	other.Name = "0 is before a"
	require.NoError(t, h.a.Replace([]*corev1.Pod{other, h.version("40")}, "55"))
	assert.Equal(t, 1, h.shown.Len())
	assert.Equal(t, "30", h.shown.ResourceVersion())
}

func TestDeletionThatASelectorMissedIsNotOutOfScope(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.a.Replace([]*corev1.Pod{h.version("5")}, "6"))
	require.NoError(t, h.b.Replace([]*corev1.Pod{h.version("5")}, "6"))
	require.NoError(t, h.a.Delete(h.version("8")))
	h.shows("5") // the other selector may select a later state
	var got []bool
	h.shown.Follow(follower(func(commit *store.Commit[*corev1.Pod]) {
		for _, c := range commit.Changes {
			assert.Equal(t, store.Deletion, c.Type)
			got = append(got, c.OutOfScope)
		}
	}))
	require.NoError(t, h.of.remove(Place{Selector: "b"}))
	assert.Equal(t, []bool{false}, got)
}

// Of several selectors with the same state, one that is not behind decides.
func TestSelectorThatIsBehindDoesNotDelayTheStateOfAnother(t *testing.T) {
	h := newLayers(t)
	recreated := h.version("15")
	recreated.UID = "new"
	require.NoError(t, h.b.Replace([]*corev1.Pod{h.version("5")}, "6"))
	require.NoError(t, h.a.Replace([]*corev1.Pod{recreated}, "15"))
	h.shows("15")
	c := h.add("c")
	require.NoError(t, c.Replace([]*corev1.Pod{recreated}, "15"))
	require.NoError(t, h.b.Replace(nil, "20")) // it left at some time
	h.shows("15")
	recreated = recreated.DeepCopy()
	recreated.ResourceVersion = "16"
	require.NoError(t, h.a.Update(recreated))
	require.NoError(t, c.Replace([]*corev1.Pod{recreated}, "20"))
	h.shows("16")
}

func TestFloorsAreBounded(t *testing.T) {
	h := newLayers(t)
	require.NoError(t, h.a.Replace(nil, "1"))
	require.NoError(t, h.b.Replace(nil, "1"))
	h.add("c") // has no list
	for i := range maxFloors + 10 {
		pod := h.version("5")
		pod.Name = strconv.Itoa(i)
		require.NoError(t, h.a.Update(pod))
		require.NoError(t, h.a.Delete(pod))
	}
	assert.Len(t, h.of.floors, maxFloors)
}

// still is a feed that fills nothing.
type still struct{}

func (still) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (still) State() (none reflector.State)                   { return none }
func (still) Changed(reflector.State) (never <-chan struct{}) { return nil }
func (still) Synced() (never <-chan struct{})                 { return nil }

func TestPartThatPanicsWhenItIsRemovedIsGone(t *testing.T) {
	all := NewReflectors("test", func(Place) (store.Store[int], error) { return nil, nil }, func(Place) error { panic("ouch") })
	at := Place{Scope: store.Scope{Namespace: "a"}}
	require.NoError(t, all.Add(at, func(store.Store[int]) Feed { return still{} }))
	one := all.Sources()[0]
	changed := all.Changed(all.State())
	assert.Panics(t, func() { _ = all.Drop(at) })
	<-one.Gone
	<-changed
	assert.ErrorIs(t, all.Drop(at), ErrNone)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
