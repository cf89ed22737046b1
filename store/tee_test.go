package store

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// picky returns a cache that rejects the pods of the node "bad".
func picky(t *testing.T) *Cache[*corev1.Pod] {
	c := newPods()
	_, err := AddIndex(c, "node", func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "bad" {
			panic("ouch")
		}
		return []string{p.Spec.NodeName}
	})
	require.NoError(t, err)
	return c
}

func TestTeeWritesToAllInOrder(t *testing.T) {
	var order []string
	stores := make([]Store[*corev1.Pod], 2)
	caches := make([]*Cache[*corev1.Pod], 2)
	for i, name := range []string{"first", "second"} {
		caches[i] = newPods()
		caches[i].Follow(followerFunc(func(*Commit[*corev1.Pod]) { order = append(order, name) }))
		stores[i] = caches[i]
	}
	pods := Tee(stores...)
	var batch Batch[*corev1.Pod]
	batch.Add(pod("n", "d", "u4", "5"))
	batch.Bookmark("6")
	for i, write := range []func() error{
		func() error { return pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1") },
		func() error { return pods.Add(pod("n", "b", "u2", "2")) },
		func() error { return pods.Update(pod("n", "b", "u2", "3")) },
		func() error { return pods.Delete(pod("n", "b", "u2", "4")) },
		func() error { return Batches(pods).Apply(&batch) },
		func() error { return pods.DeleteKey(Key{Namespace: "n", Name: "d"}) },
		func() error { return pods.Bookmark("8") },
		func() error {
			return Batches(pods).ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{{Namespace: "n", Name: "a"}}, ResourceVersion: "9"})
		},
	} {
		order = nil
		require.NoError(t, write(), "write %d", i)
		assert.Equal(t, []string{"first", "second"}, order, "write %d", i)
		assert.Equal(t, names(caches[0].All()), names(caches[1].All()), "write %d", i)
	}
	assert.Equal(t, []string{"n/a"}, names(caches[1].All()))
	assert.Equal(t, "9", pods.ResourceVersion())
}

func TestTeeResumesWhereTheLastStoreIs(t *testing.T) {
	ahead, behind := newPods(), picky(t)
	pods := Tee[*corev1.Pod](ahead, behind)
	require.NoError(t, pods.Replace([]*corev1.Pod{on("x", pod("n", "a", "u1", "9"))}, "9"))

	err := pods.Update(on("bad", pod("n", "a", "u1", "10")))
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.NoError(t, pods.Add(pod("n", "b", "u2", "11")))
	assert.Equal(t, "11", ahead.ResourceVersion())
	assert.Equal(t, "9", pods.ResourceVersion(), "9 is less than 11: they are numbers")
	assert.Equal(t, 2, behind.Len(), "the one that is behind gets the rest")

	require.NoError(t, pods.Update(on("y", pod("n", "a", "u1", "12"))))
	assert.Equal(t, "12", pods.ResourceVersion())
}

func TestTeeHasTheLeastResourceVersion(t *testing.T) {
	for _, test := range []struct {
		versions []string
		want     string
	}{
		{[]string{"5"}, "5"},
		{[]string{"opaque"}, "opaque"},
		{[]string{"10", "9", "11"}, "9"},
		{[]string{"9", "10"}, "9"},
		{[]string{"5", "", "6"}, ""},
		{[]string{"", "5"}, ""},
		{[]string{"opaque", "opaque"}, "opaque"},
		{[]string{"opaque", "5"}, ""},
		{[]string{"5", "6", "opaque"}, ""},
	} {
		var stores []Store[*corev1.Pod]
		for _, version := range test.versions {
			c := newPods()
			require.NoError(t, c.Replace(nil, version))
			stores = append(stores, c)
		}
		assert.Equal(t, test.want, Tee(stores...).ResourceVersion(), "%q", test.versions)
	}
}

// refusing is a store that refuses everything with one error.
type refusing struct {
	Store[*corev1.Pod]
	err error
}

func (r refusing) Add(*corev1.Pod) error               { return r.err }
func (r refusing) Replace([]*corev1.Pod, string) error { return r.err }

func TestTeeJoinsErrors(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	c := newPods()
	pods := Tee[*corev1.Pod](refusing{newPods(), one}, c, refusing{newPods(), two})
	for name, err := range map[string]error{
		"Add":     pods.Add(pod("n", "a", "u1", "1")),
		"Replace": pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"),
	} {
		require.ErrorIs(t, err, one, name)
		require.ErrorIs(t, err, two, name)
	}
	assert.Equal(t, 1, c.Len(), "the error of another store does not stop it")
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Empty(t, pods.ResourceVersion())
}

func TestTeeHoldsWhatAllHold(t *testing.T) {
	first, second := newPods(), newPods()
	pods := Batches(Tee[*corev1.Pod](first, second))
	key, version := Key{Namespace: "n", Name: "a"}, Version{"u1", "1"}
	assert.False(t, pods.Holds(key, version))
	require.NoError(t, first.Add(pod("n", "a", "u1", "1")))
	assert.False(t, pods.Holds(key, version))
	require.NoError(t, second.Add(pod("n", "a", "u1", "1")))
	assert.True(t, pods.Holds(key, version))
	assert.False(t, pods.Holds(key, Version{"u1", "2"}))
}

func TestTeeFillsStoresWithAndWithoutBatches(t *testing.T) {
	c, user := newPods(), &plain[*corev1.Pod]{Store: newPods()}
	pods := Tee[*corev1.Pod](c, user)
	held := pod("n", "a", "u1", "1")
	require.NoError(t, pods.Replace([]*corev1.Pod{held}, "1"))
	var batch Batch[*corev1.Pod]
	batch.Add(pod("n", "b", "u2", "2"))
	batch.Add(pod("n", "c", "u3", "3"))
	require.NoError(t, Batches(pods).Apply(&batch))
	require.NoError(t, Batches(pods).ReplaceAll(Listing[*corev1.Pod]{Objects: []*corev1.Pod{pod("n", "a", "u1", "1")}, ResourceVersion: "4"}))
	assert.Equal(t, []string{"Replace", "Add", "Add", "Replace"}, user.calls)
	assert.Equal(t, "4", pods.ResourceVersion())
	still, _ := c.Get(Key{Namespace: "n", Name: "a"})
	assert.Same(t, held, still)
}

func TestTeeWithoutItsArguments(t *testing.T) {
	requireNoStore(t, "none", Tee[*corev1.Pod]())
	requireNoStore(t, "nil", Tee[*corev1.Pod](nil))

	c := newPods()
	pods := Tee[*corev1.Pod](nil, c)
	requireNoStore(t, "nil and another", pods)
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "2"), ErrNoStore)
	assert.Equal(t, 1, c.Len())
	assert.Equal(t, "2", c.ResourceVersion())
}
