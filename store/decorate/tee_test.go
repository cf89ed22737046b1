package decorate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

// picky returns a cache that rejects the pods of the node "bad".
func picky(t *testing.T) *store.Cache[*corev1.Pod] {
	c := newPods()
	_, err := store.AddIndex(c, "node", func(p *corev1.Pod) []string {
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
	stores := make([]store.Store[*corev1.Pod], 2)
	caches := make([]*store.Cache[*corev1.Pod], 2)
	for i, name := range []string{"first", "second"} {
		caches[i] = newPods()
		caches[i].Follow(followerFunc(func(*store.Commit[*corev1.Pod]) { order = append(order, name) }))
		stores[i] = caches[i]
	}
	pods := Tee(stores...)
	for i, write := range []func() error{
		func() error { return pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1") },
		func() error { return pods.Add(pod("n", "b", "u2", "2")) },
		func() error { return pods.Update(pod("n", "b", "u2", "3")) },
		func() error { return pods.Delete(pod("n", "b", "u2", "4")) },
		func() error { return apply(pods, "6", adding(pod("n", "d", "u4", "5"))) },
		func() error { return pods.DeleteKey(inN("d")) },
		func() error { return pods.Bookmark("8") },
		func() error {
			b, _ := Begin(pods, true)
			b.Keep(keyA())
			return b.Commit("9")
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
	var rejected *store.RejectedError
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
		var stores []store.Store[*corev1.Pod]
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
	store.Store[*corev1.Pod]
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
	pods := Tee[*corev1.Pod](first, second).(store.BatchStore[*corev1.Pod])
	key, version := keyA(), store.Version{UID: "u1", ResourceVersion: "1"}
	assert.False(t, pods.Has(key, version, 7))
	w := store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("n", "a", "u1", "1"), Hash: 7}
	require.NoError(t, apply[*corev1.Pod](first, "", w))
	assert.False(t, pods.Has(key, version, 7))
	require.NoError(t, apply[*corev1.Pod](second, "", w))
	assert.True(t, pods.Has(key, version, 7))
	assert.False(t, pods.Has(key, version, 8))
	assert.False(t, pods.Has(key, store.Version{UID: "u1", ResourceVersion: "2"}, 7))
}

func TestTeeFillsStoresWithAndWithoutBatches(t *testing.T) {
	c, user := newPods(), &plain[*corev1.Pod]{Store: newPods()}
	pods := Tee[*corev1.Pod](c, user)
	held := pod("n", "a", "u1", "1")
	require.NoError(t, pods.Replace([]*corev1.Pod{held}, "1"))
	require.NoError(t, apply(pods, "", adding(pod("n", "b", "u2", "2")), adding(pod("n", "c", "u3", "3"))))
	b, _ := Begin(pods, true)
	require.NoError(t, commit(b, "4", adding(pod("n", "a", "u1", "1"))))
	assert.Equal(t, []string{"Replace", "Add", "Add", "Replace"}, user.calls)
	assert.Equal(t, "4", pods.ResourceVersion())
	still, _ := c.Get(keyA())
	assert.Same(t, held, still)
}

func TestTeeWithoutItsArgumentsPanics(t *testing.T) {
	assert.Panics(t, func() { Tee[*corev1.Pod]() })
	assert.Panics(t, func() { Tee[*corev1.Pod](newPods(), nil) })
}

// ending is a store whose batches end at the first write.
type ending struct {
	store.BatchStore[*corev1.Pod]
	err error
}

func (e *ending) BeginBatch(self store.Store[*corev1.Pod], replace bool) store.Batch[*corev1.Pod] {
	b, _ := Begin[*corev1.Pod](e.BatchStore, replace)
	return &endingBatch{b, e.err}
}

type endingBatch struct {
	store.Batch[*corev1.Pod]
	err error
}

func (b *endingBatch) Write(store.Write[*corev1.Pod]) error { return b.err }
func (b *endingBatch) Commit(string) error                  { return b.err }

func TestTeeGoesOnWithABatchUntilAllStoresEndIt(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	c, object := newPods(), pod("n", "a", "u1", "1")
	for _, replace := range []bool{true, false} {
		b, _ := Begin(Tee[*corev1.Pod](&ending{newPods(), one}, c), replace)
		require.NoError(t, b.Write(adding(object)))
		require.ErrorIs(t, b.Commit("2"), one)
		assert.Equal(t, []string{"n/a"}, names(c.All()))
		assert.Equal(t, "2", c.ResourceVersion())

		b, _ = Begin(Tee[*corev1.Pod](&ending{newPods(), one}, &ending{newPods(), two}), replace)
		for _, err := range []error{b.Write(adding(object)), b.Commit("2")} {
			require.ErrorIs(t, err, one)
			require.ErrorIs(t, err, two)
		}
	}
}
