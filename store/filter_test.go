package store

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
	held, _ := c.Get(Key{Namespace: "n", Name: "a"})
	assert.Same(t, a, held, "what did not change keeps its pointer")
	require.NoError(t, pods.Replace([]*corev1.Pod{on("there", pod("n", "a", "u1", "8")), on("here", pod("n", "c", "u3", "6"))}, "8"))
	assert.Equal(t, []string{"Deletion n/a 1"}, hear())
	assert.Equal(t, "8", pods.ResourceVersion())

	require.NoError(t, pods.Delete(on("bad", pod("n", "c", "u3", "9"))), "a deletion is not judged")
	assert.Equal(t, []string{"Deletion n/c 9"}, hear())
	require.NoError(t, pods.Bookmark("10"))
	require.NoError(t, pods.DeleteKey(Key{Namespace: "n", Name: "c"}))
	assert.Equal(t, "10", pods.ResourceVersion())
}

func TestFilterRejectsWhatCannotBeJudged(t *testing.T) {
	c := newPods()
	pods := Filter(c, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1"))}, "1"))
	rec := follow(c)
	var batch Batch[*corev1.Pod]
	batch.Add(on("here", pod("n", "before", "u2", "2")))
	batch.Update(on("bad", pod("n", "a", "u1", "3")))
	batch.Add(on("here", pod("n", "after", "u3", "4")))

	err := Batches(pods).Apply(&batch)

	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 1)
	assert.Equal(t, Key{Namespace: "n", Name: "a"}, rejected.Rejections[0].Key)
	assert.Equal(t, Version{"u1", "3"}, rejected.Rejections[0].Version)
	require.ErrorIs(t, err, ErrPanic)
	assert.ErrorContains(t, err, `"n/a" at resource version "3": filter: panic: ouch`)
	assert.Equal(t, []string{"Addition n/before 2", "Addition n/after 4"}, rec.changes())
	assert.Len(t, rec.commits, 1, "a batch is one batch for the store behind")
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
	require.ErrorIs(t, pods.Replace(list, "2"), ErrPanic)
	assert.Equal(t, []string{"Deletion n/b 1", "Addition n/c 2"}, rec.changes())
	assert.Equal(t, "1", pods.ResourceVersion())

	require.NoError(t, pods.DeleteKey(Key{Namespace: "n", Name: "a"}))
	require.NoError(t, pods.Bookmark("3"))
	assert.Equal(t, "3", pods.ResourceVersion())
}

func TestFilterLeavesNilToTheStoreBehind(t *testing.T) {
	c := newPods()
	pods := Filter(c, func(*corev1.Pod) bool {
		assert.Fail(t, "called for nil")
		return false
	})
	var rejected *RejectedError
	require.ErrorAs(t, pods.Add(nil), &rejected)
	require.ErrorIs(t, pods.Update(nil), ErrNilObject)
	require.ErrorIs(t, pods.Delete(nil), ErrNilObject)
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{nil}, "1"), ErrNilObject)
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
		assert.Equal(t, test.nodes[len(test.nodes)-1] == "bad", errors.Is(err, ErrPanic), "%s: %v", name, err)
		_, held := c.Get(Key{Namespace: "n", Name: "a"})
		assert.Equal(t, test.held, held, name)
		_, held = c.Get(Key{Namespace: "n", Name: "b"})
		assert.True(t, held, name)
	}
}

func TestFilterPassesOnWhatAListTellsBesideItsObjects(t *testing.T) {
	c := New(slimKey)
	filtered := Filter(c, func(s *slim) bool { return s.node == "here" })
	pods := Transform(filtered, ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{
		on("there", pod("n", "a", "u1", "1")), on("here", pod("n", "b", "u2", "2")), on("here", pod("n", "c", "u3", "3")),
	}, "3"))
	assert.True(t, c.Holds(Key{Namespace: "n", Name: "b"}, Version{"u2", "2"}))
	assert.True(t, c.Holds(Key{Namespace: "n", Name: "c"}, Version{"u3", "3"}))
	require.NoError(t, pods.Update(on("there", pod("n", "b", "u2", "4"))))
	assert.Equal(t, "4", pods.ResourceVersion())

	heard := listen(c)
	key := Key{Namespace: "n", Name: "c"}
	err := Batches(filtered).ReplaceAll(Listing[*slim]{
		Objects:         []*slim{{"n", "d", "there"}},
		Unchanged:       []Key{key, {Namespace: "n", Name: "d"}},
		Lacking:         []Rejection{{Key: Key{Namespace: "n", Name: "e"}, Err: errRefused}},
		ResourceVersion: "5",
	})
	require.ErrorIs(t, err, errRefused)
	assert.NotErrorIs(t, err, ErrNotHeld, "what did not pass is not unchanged")
	assert.Empty(t, heard.changes)
	assert.Equal(t, "4", pods.ResourceVersion())
}

// plain is a store as a user writes one: it has no batches, and does not tell how
// it derives keys.
type plain[T any] struct {
	Store[T]
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
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, Key{}, rejected.Rejections[0].Key)
	assert.Equal(t, Version{"u1", "3"}, rejected.Rejections[0].Version)
	require.ErrorIs(t, err, ErrPanic)

	list := []*corev1.Pod{on("bad", pod("n", "a", "u1", "3")), on("here", pod("n", "b", "u2", "4")), on("here", pod("n", "c", "u3", "4"))}
	requireRefused(t, pods.Replace(list, "4"), ErrPanic)
	requireRefused(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "c", "u3", "4")), on("bad", pod("n", "d", "u4", "4"))}, "4"), ErrPanic)
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
	c := New(slimKey)
	filtered := Filter(&plain[*slim]{Store: c}, func(s *slim) bool {
		if s.node == "bad" {
			panic("ouch")
		}
		return s.node == "here"
	})
	pods := Transform(filtered, ObjectKey[*corev1.Pod], (&slimmer{}).slim)

	var rejected *RejectedError
	require.ErrorAs(t, pods.Add(on("bad", pod("n", "a", "u1", "1"))), &rejected)
	assert.Equal(t, keyA(), rejected.Rejections[0].Key)
	assert.Equal(t, Version{"u1", "1"}, rejected.Rejections[0].Version)

	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "u1", "1")), on("there", pod("n", "a", "u1", "2"))}, "2"))
	assert.Zero(t, c.Len(), "the later of two objects with one key counts")
}

func TestFilterOfPartitionRejectsUnderTheKeyThere(t *testing.T) {
	c := newPods()
	p, err := c.Partition(Scope{Cluster: "c1"})
	require.NoError(t, err)
	pods := Filter(p, here)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("here", pod("n", "a", "", "1"))}, "1"))
	require.Error(t, pods.Replace([]*corev1.Pod{on("bad", pod("n", "a", "", "2"))}, "2"))
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
}

func TestFilterWithoutItsArguments(t *testing.T) {
	var missing *Cache[*corev1.Pod]
	for name, dst := range map[string]Store[*corev1.Pod]{"nil": nil, "typed nil": missing} {
		requireNoStore(t, name, Filter(dst, func(*corev1.Pod) bool { return true }))
	}
	c := newPods()
	pods := Filter(c, nil)
	var rejected *RejectedError
	require.ErrorAs(t, pods.Add(pod("n", "a", "u1", "1")), &rejected)
	assert.Equal(t, Key{Namespace: "n", Name: "a"}, rejected.Rejections[0].Key)
	require.ErrorIs(t, pods.Update(pod("n", "a", "u1", "1")), ErrNoFunc)
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"), ErrNoFunc)
	assert.Zero(t, c.Len())
	assert.Empty(t, pods.ResourceVersion())
}
