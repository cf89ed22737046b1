package decorate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

// on returns a pod on a node.
func on(node string, p *corev1.Pod) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

// here keeps the pods of one node; the one of "bad" cannot be judged.
func here(p *corev1.Pod) bool {
	if p.Spec.NodeName == "bad" {
		panic("ouch")
	}
	return p.Spec.NodeName == "here"
}

func TestFilterHoldsWhatPasses(t *testing.T) {
	c := newPods()
	pods := Filter(c, here)
	rec := follow(c)
	hear := func() []string {
		all := rec.changes()
		rec.all = nil
		return all
	}

	a := on("here", pod("n", "a", "u1", "1"))
	require.NoError(t, pods.Replace([]*corev1.Pod{a, on("there", pod("n", "b", "u2", "2"))}, "2"))
	assert.Equal(t, []string{"Addition n/a 1"}, hear())
	assert.Equal(t, "2", pods.ResourceVersion())

	require.NoError(t, pods.Add(on("there", pod("n", "c", "u3", "3"))))
	assert.Empty(t, hear())
	assert.Equal(t, "3", pods.ResourceVersion(), "what does not pass was seen all the same")

	require.NoError(t, pods.Update(on("here", pod("n", "b", "u2", "4"))))
	assert.Equal(t, []string{"Addition n/b 4"}, hear(), "it entered")

	leaves := on("there", pod("n", "b", "u2", "5"))
	require.NoError(t, pods.Update(leaves))
	require.Len(t, rec.all, 1)
	assert.Same(t, leaves, rec.all[0].Object)
	assert.Equal(t, []string{"Deletion n/b 5"}, hear(), "it left")
	assert.Equal(t, "5", pods.ResourceVersion())

	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("here", pod("n", "c", "u3", "6"))}, "7"))
	assert.Equal(t, []string{"Addition n/c 6"}, hear())
	held, _ := c.Get(keyA())
	assert.Same(t, a, held, "what did not change keeps its pointer")
	require.NoError(t, pods.Replace([]*corev1.Pod{on("there", pod("n", "a", "u1", "8")), on("here", pod("n", "c", "u3", "6"))}, "8"))
	assert.Equal(t, []string{"Deletion n/a 1"}, hear())
	assert.Equal(t, "8", pods.ResourceVersion())

	require.NoError(t, pods.Delete(on("bad", pod("n", "c", "u3", "9"))), "a deletion is not judged")
	assert.Equal(t, []string{"Deletion n/c 9"}, hear())
	require.NoError(t, pods.Bookmark("10"))
	require.NoError(t, pods.DeleteKey(inN("c")))
	assert.Equal(t, "10", pods.ResourceVersion())
}

func TestFilterRejectsWhatCannotBeJudged(t *testing.T) {
	c := newPods()
	pods := Filter(c, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1"))}, "1"))
	rec := follow(c)

	err := apply(pods, "",
		adding(on("here", pod("n", "before", "u2", "2"))),
		updating(on("bad", pod("n", "a", "u1", "3"))),
		adding(on("here", pod("n", "after", "u3", "4"))))

	var rejected *store.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 1)
	assert.Equal(t, keyA(), rejected.Rejections[0].Key)
	assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "3"}, rejected.Rejections[0].Version)
	require.ErrorIs(t, err, store.ErrPanic)
	assert.ErrorContains(t, err, `"n/a" at resource version "3": filter: panic: ouch`)
	assert.Equal(t, []string{"Addition n/before 2", "Addition n/after 4"}, rec.changes())
	assert.Equal(t, 1, rec.commits, "a batch is one batch for the store behind")
	assert.Equal(t, "2", pods.ResourceVersion(), "it stays before the rejected object")

	require.NoError(t, pods.Update(on("there", pod("n", "a", "u1", "5"))))
	assert.Equal(t, "5", pods.ResourceVersion(), "it was judged at last")
	assert.Equal(t, []string{"n/after", "n/before"}, names(c.All()))
}

func TestFilterKeepsWhatAListHasInAStateThatCannotBeJudged(t *testing.T) {
	c := newPods()
	pods := Filter(c, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("here", pod("n", "b", "u2", "1"))}, "1"))
	rec := follow(c)
	list := []*corev1.Pod{on("bad", pod("n", "a", "u9", "2")), on("here", pod("n", "c", "u3", "2"))}
	require.ErrorIs(t, pods.Replace(list, "2"), store.ErrPanic)
	assert.Equal(t, []string{"Deletion n/b 1", "Addition n/c 2"}, rec.changes())
	assert.Equal(t, "1", pods.ResourceVersion())

	require.NoError(t, pods.DeleteKey(keyA()))
	require.NoError(t, pods.Bookmark("3"))
	assert.Equal(t, "3", pods.ResourceVersion())
}

func TestFilterLeavesNilToTheStoreBehind(t *testing.T) {
	c := newPods()
	pods := Filter(c, func(*corev1.Pod) bool {
		assert.Fail(t, "called for nil")
		return false
	})
	var rejected *store.RejectedError
	require.ErrorAs(t, pods.Add(nil), &rejected)
	require.ErrorIs(t, pods.Update(nil), store.ErrBadKey)
	require.ErrorIs(t, pods.Delete(nil), store.ErrBadKey)
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{nil}, "1"), store.ErrBadKey)
	assert.Empty(t, pods.ResourceVersion())
}

func TestFilterTakesTheLaterOfTwoObjectsWithOneKey(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []string
		held  bool
	}{
		"leaves":           {[]string{"here", "there"}, false},
		"enters":           {[]string{"there", "here"}, true},
		"leaves and comes": {[]string{"here", "there", "here"}, true},
		"bad, then not":    {[]string{"bad", "here"}, true},
		"bad, then leaves": {[]string{"bad", "there"}, false},
		"good, then bad":   {[]string{"there", "here", "bad"}, false},
	} {
		c := newPods()
		list := []*corev1.Pod{on("here", pod("n", "b", "u2", "1"))}
		for _, node := range test.nodes {
			list = append(list, on(node, pod("n", "a", "u1", "1")))
		}
		err := Filter(c, here).Replace(list, "1")
		assert.Equal(t, test.nodes[len(test.nodes)-1] == "bad", errors.Is(err, store.ErrPanic), "%s: %v", name, err)
		_, held := c.Get(keyA())
		assert.Equal(t, test.held, held, name)
		_, held = c.Get(inN("b"))
		assert.True(t, held, name)
	}
}

func TestFilterPassesOnWhatAListTellsBesideItsObjects(t *testing.T) {
	c := store.New(slimKey)
	filtered := Filter(c, func(s *slim) bool { return s.node == "here" })
	pods := Transform(filtered, store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{
		on("there", pod("n", "a", "u1", "1")), on("here", pod("n", "b", "u2", "2")), on("here", pod("n", "c", "u3", "3")),
	}, "3"))
	assert.Equal(t, store.Version{UID: "u2", ResourceVersion: "2"}, versionIn(c, inN("b")))
	assert.Equal(t, store.Version{UID: "u3", ResourceVersion: "3"}, versionIn(c, inN("c")))
	require.NoError(t, pods.Update(on("there", pod("n", "b", "u2", "4"))))
	assert.Equal(t, "4", pods.ResourceVersion())

	heard := listen(c)
	key := inN("c")
	b, _ := BeginList(filtered)
	b.Keep(key)
	b.Keep(inN("d"))
	err := commit(b, "5",
		adding(&slim{"n", "d", "there"}),
		store.Write[*slim]{Key: inN("e"), Err: errRefused})
	require.ErrorIs(t, err, errRefused)
	assert.NotErrorIs(t, err, store.ErrNotHeld, "what did not pass is not unchanged")
	assert.Empty(t, heard.changes)
	assert.Equal(t, "4", pods.ResourceVersion())
}

// plain is a store as a user writes one: it has no batches, and does not tell how
// it derives keys.
type plain[T any] struct {
	store.Store[T]
	calls []string
}

func (p *plain[T]) Add(object T) error {
	p.calls = append(p.calls, "Add")
	return p.Store.Add(object)
}

func (p *plain[T]) Replace(objects []T, resourceVersion string) error {
	p.calls = append(p.calls, "Replace")
	return p.Store.Replace(objects, resourceVersion)
}

func TestFilterInFrontOfAStoreThatDoesNotTellKeys(t *testing.T) {
	behind := &plain[*corev1.Pod]{Store: newPods()}
	pods := Filter(behind, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("there", pod("n", "b", "u2", "1"))}, "1"))
	require.NoError(t, pods.Update(on("there", pod("n", "a", "u1", "2"))))
	assert.Equal(t, "2", pods.ResourceVersion())
	err := pods.Update(on("bad", pod("n", "a", "u1", "3")))
	var rejected *store.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, store.Key{}, rejected.Rejections[0].Key)
	assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "3"}, rejected.Rejections[0].Version)
	require.ErrorIs(t, err, store.ErrPanic)

	list := []*corev1.Pod{on("bad", pod("n", "a", "u1", "3")), on("here", pod("n", "b", "u2", "4")), on("here", pod("n", "c", "u3", "4"))}
	requireRefused(t, pods.Replace(list, "4"), store.ErrPanic)
	requireRefused(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "c", "u3", "4")), on("bad", pod("n", "d", "u4", "4"))}, "4"), store.ErrPanic)
	assert.Equal(t, 1, count(behind.calls, "Replace"), "the store behind cannot keep what it is not given")
}

func count(calls []string, name string) (n int) {
	for _, call := range calls {
		if call == name {
			n++
		}
	}
	return n
}

func TestFilterBehindATransformIsToldKeysAndVersions(t *testing.T) {
	c := store.New(slimKey)
	filtered := Filter(&plain[*slim]{Store: c}, func(s *slim) bool {
		if s.node == "bad" {
			panic("ouch")
		}
		return s.node == "here"
	})
	pods := Transform(filtered, store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)

	var rejected *store.RejectedError
	require.ErrorAs(t, pods.Add(on("bad", pod("n", "a", "u1", "1"))), &rejected)
	assert.Equal(t, keyA(), rejected.Rejections[0].Key)
	assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "1"}, rejected.Rejections[0].Version)

	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("there", pod("n", "a", "u1", "2"))}, "2"))
	assert.Zero(t, c.Len(), "the later of two objects with one key counts")
}

func TestFilterOfPartitionRejectsUnderTheKeyThere(t *testing.T) {
	c := newPods()
	p, err := c.Partition(store.Scope{Cluster: "c1"})
	require.NoError(t, err)
	pods := Filter(p, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "", "1"))}, "1"))
	require.Error(t, pods.Replace([]*corev1.Pod{on("bad", pod("n", "a", "", "2"))}, "2"))
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
}

func TestFilterWithoutAFunctionPanics(t *testing.T) {
	assert.Panics(t, func() { Filter(newPods(), nil) })
}
