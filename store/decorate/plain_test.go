package decorate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

// These tests are about the adapter that Begin makes for a plain store.

var errUndecodable = errors.New("undecodable")

// overriding is a user's wrapper that has everything from the store that it embeds, but its own Add
// and Replace.
type overriding struct {
	store.BatchStore[*corev1.Pod]
	added, replaced int
}

func (o *overriding) Add(p *corev1.Pod) error { o.added++; return o.BatchStore.Add(p) }

func (o *overriding) Replace(all []*corev1.Pod, version string) error {
	o.replaced++
	return o.BatchStore.Replace(all, version)
}

// willing is a wrapper that means its batches.
type willing struct{ *store.Cache[*corev1.Pod] }

func (w *willing) BeginBatch(self store.Store[*corev1.Pod], replace bool) store.Batch[*corev1.Pod] {
	if self != store.Store[*corev1.Pod](w) {
		return nil
	}
	return w.Cache.BeginBatch(w.Cache, replace)
}

func TestBatchesAreMadeByTheStoreItself(t *testing.T) {
	c := newPods()
	p, err := c.Partition(store.Scope{Namespace: "n"})
	require.NoError(t, err)
	for want, stores := range map[bool][]store.Store[*corev1.Pod]{
		true:  {c, p, &willing{c}},
		false: {&overriding{BatchStore: c}, &overriding{BatchStore: p}, &overriding{BatchStore: &willing{c}}, &plain[*corev1.Pod]{Store: c}},
	} {
		for _, s := range stores {
			for _, replace := range []bool{false, true} {
				_, own := Begin(s, replace)
				assert.Equal(t, want, own, "%T", s)
			}
		}
	}
}

// failing is a write of an object that could not be decoded.
func undecodable(name string) store.Write[*corev1.Pod] {
	return store.Write[*corev1.Pod]{Key: store.Key{Name: name}, Err: errUndecodable}
}

func TestBatchesDoNotBypassAWrapper(t *testing.T) {
	c := newPods()
	o := &overriding{BatchStore: c}
	var rejected *store.RejectedError
	require.ErrorAs(t, apply[*corev1.Pod](o, "4",
		adding(pod("", "a", "u1", "1")),
		adding[*corev1.Pod](nil),
		updating(pod("", "b", "u2", "2")),
		deleting(pod("", "a", "u1", "3")),
		adding(pod("", "", "u", "3")),
		store.Write[*corev1.Pod]{Type: store.Deletion, Key: store.Key{Name: "b"}},
		store.Write[*corev1.Pod]{},
	), &rejected)
	require.Len(t, rejected.Rejections, 3, "of all writes, in one error")
	assert.ErrorIs(t, rejected.Rejections[0].Err, store.ErrBadKey)
	assert.ErrorIs(t, rejected.Rejections[1].Err, store.ErrBadKey)
	assert.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, 3, o.added)
	assert.Zero(t, c.Len())

	require.NoError(t, replaced(o, "5", adding(pod("", "a", "u1", "5"))))
	assert.Equal(t, 1, o.replaced)

	requireRefused(t, replaced(o, "6", undecodable("b")), errUndecodable)
	list, _ := Begin[*corev1.Pod](o, true)
	list.Keep(store.Key{Name: "a"})
	requireRefused(t, list.Commit("6"), store.ErrNotHeld)
	assert.Equal(t, 1, o.replaced, "a list that Replace cannot be told is refused")
	assert.Equal(t, "5", c.ResourceVersion())

	err := apply[*corev1.Pod](o, "", adding(pod("", "b", "u2", "6")), undecodable("b"), adding(pod("", "c", "u3", "8")))
	require.ErrorAs(t, err, &rejected)
	require.ErrorContains(t, err, "nothing was stored", "the last write was not made")
	assert.Equal(t, []string{"a", "b"}, names(c.All()), "it ends at the failed object")
	assert.Equal(t, "6", c.ResourceVersion())

	err = apply[*corev1.Pod](o, "", adding(pod("", "b", "u2", "7")), undecodable("b"))
	require.ErrorAs(t, err, &rejected)
	require.NotContains(t, err.Error(), "nothing was stored", "everything else was stored")
}

// replaced makes writes the content of a store.
func replaced(s store.Store[*corev1.Pod], resourceVersion string, writes ...store.Write[*corev1.Pod]) error {
	b, _ := Begin(s, true)
	return commit(b, resourceVersion, writes...)
}

func TestListForAPlainStoreHasTheLastWordOnEachKey(t *testing.T) {
	c := newPods()
	batch, own := Begin[*corev1.Pod](&plain[*corev1.Pod]{Store: c}, true)
	require.False(t, own)
	batch.Keep(store.Key{Name: "b"}) // which is written below
	require.NoError(t, commit(batch, "9",
		adding(pod("", "a", "u1", "1")), deleting(pod("", "a", "u1", "2")),
		adding(pod("", "b", "u2", "1")), adding(pod("", "b", "u2", "2")),
		undecodable("c"), adding(pod("", "c", "u3", "2")),
		adding(pod("", "d", "u4", "1")), store.Write[*corev1.Pod]{Type: store.Deletion, Key: store.Key{Name: "d"}},
	))
	assert.Equal(t, []string{"b", "c"}, names(c.All()))
	assert.Equal(t, "9", c.ResourceVersion())
}

func TestWriteWithoutATypeIsRejectedForAPlainStore(t *testing.T) {
	none := store.Write[*corev1.Pod]{Key: store.Key{Name: "a"}}
	require.ErrorIs(t, apply[*corev1.Pod](&plain[*corev1.Pod]{Store: newPods()}, "", none), errNoWrite)
	requireRefused(t, replaced(&plain[*corev1.Pod]{Store: newPods()}, "1", none), errNoWrite)
}

// broken is a store with an Add that fails in its own way.
type broken struct{ store.Store[*corev1.Pod] }

func (broken) Add(*corev1.Pod) error { return errUndecodable }

func TestBatchesReturnErrorsOfAnyKind(t *testing.T) {
	s := broken{newPods()}
	err := apply[*corev1.Pod](s, "", adding(pod("", "a", "", "")), updating[*corev1.Pod](nil))
	require.ErrorIs(t, err, errUndecodable)
	require.ErrorIs(t, err, store.ErrBadKey)
	require.NoError(t, apply[*corev1.Pod](s, "", updating(pod("", "a", "", ""))))
}
