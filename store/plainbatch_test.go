package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests are about the adapter that Begin makes for a plain store.

// overriding is a user's wrapper that has everything from the store that it
// embeds, but its own Add and Replace.
type overriding struct {
	BatchStore[*corev1.Pod]
	added, replaced int
}

func (o *overriding) Add(p *corev1.Pod) error { o.added++; return o.BatchStore.Add(p) }

func (o *overriding) Replace(all []*corev1.Pod, version string) error {
	o.replaced++
	return o.BatchStore.Replace(all, version)
}

// willing is a wrapper that means its batches.
type willing struct{ *Cache[*corev1.Pod] }

func (w *willing) BeginBatch(self Store[*corev1.Pod], replace bool) Batch[*corev1.Pod] {
	if self != Store[*corev1.Pod](w) {
		return nil
	}
	return w.Cache.BeginBatch(w.Cache, replace)
}

func TestBatchesAreMadeByTheStoreItself(t *testing.T) {
	c := newPods()
	p, err := c.Partition(Scope{Namespace: "n"})
	require.NoError(t, err)
	for want, stores := range map[bool][]Store[*corev1.Pod]{
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

func TestBatchesDoNotBypassAWrapper(t *testing.T) {
	c := newPods()
	o := &overriding{BatchStore: c}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "1"))
	batch.Add(nil)
	batch.Update(pod("", "b", "u2", "2"))
	batch.Delete(pod("", "a", "u1", "3"))
	batch.Add(pod("", "", "u", "3"))
	batch.DeleteKey(Key{Name: "b"})
	batch.Append(Write[*corev1.Pod]{})
	batch.Bookmark("4")

	var rejected *RejectedError
	require.ErrorAs(t, batch.to(o), &rejected)
	require.Len(t, rejected.Rejections, 3, "of all writes, in one error")
	assert.ErrorIs(t, rejected.Rejections[0].Err, errNilObject)
	assert.ErrorIs(t, rejected.Rejections[1].Err, errNoName)
	assert.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, 3, o.added)
	assert.Zero(t, c.Len())

	require.NoError(t, list[*corev1.Pod]{Objects: []*corev1.Pod{pod("", "a", "u1", "5")}, ResourceVersion: "5"}.to(o))
	assert.Equal(t, 1, o.replaced)

	failed := list[*corev1.Pod]{Failed: []Rejection{{Key: Key{Name: "b"}, Err: errUndecodable}}, ResourceVersion: "6"}
	requireRefused(t, failed.to(o), errUndecodable)
	requireRefused(t, list[*corev1.Pod]{Unchanged: []Key{{Name: "a"}}, ResourceVersion: "6"}.to(o), ErrNotHeld)
	assert.Equal(t, 1, o.replaced, "a list that Replace cannot be told is refused")
	assert.Equal(t, "5", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "6"))
	batch.Fail(failed.Failed[0])
	batch.Add(pod("", "c", "u3", "8"))
	err := batch.to(o)
	require.ErrorAs(t, err, &rejected)
	require.ErrorContains(t, err, "nothing was stored", "the last write was not made")
	assert.Equal(t, []string{"a", "b"}, names(c.All()), "it ends at the failed object")
	assert.Equal(t, "6", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "7"))
	batch.Fail(failed.Failed[0])
	err = batch.to(o)
	require.ErrorAs(t, err, &rejected)
	require.NotContains(t, err.Error(), "nothing was stored", "everything else was stored")
}

func TestListForAPlainStoreHasTheLastWordOnEachKey(t *testing.T) {
	c := newPods()
	batch, own := Begin[*corev1.Pod](&plain[*corev1.Pod]{Store: c}, true)
	require.False(t, own)
	batch.Keep(Key{Name: "b"}) // which is written below
	for _, w := range []Write[*corev1.Pod]{
		adding(pod("", "a", "u1", "1")), deleting(pod("", "a", "u1", "2")),
		adding(pod("", "b", "u2", "1")), adding(pod("", "b", "u2", "2")),
		{Key: Key{Name: "c"}, Err: errUndecodable}, adding(pod("", "c", "u3", "2")),
		adding(pod("", "d", "u4", "1")), {Type: Deletion, Key: Key{Name: "d"}},
	} {
		require.NoError(t, batch.Write(w))
	}
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, []string{"b", "c"}, names(c.All()))
	assert.Equal(t, "9", c.ResourceVersion())
}

// plain is a store without batches, which notes how it was called.
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

// requireRefused requires that nothing was stored because of one object.
func requireRefused(t *testing.T, err, cause error) {
	t.Helper()
	require.ErrorContains(t, err, "nothing was stored, because 1 object(s)")
	require.ErrorContains(t, err, cause.Error())
	require.NotErrorIs(t, err, cause, "which may be a RejectedError")
	var rejected *RejectedError
	require.NotErrorAs(t, err, &rejected, "which would mean that the others were stored")
}

// broken is a store whose Add fails as nothing of ours does.
type broken struct{ Store[*corev1.Pod] }

func (broken) Add(*corev1.Pod) error { return errUndecodable }

func TestBatchesReturnErrorsOfAnyKind(t *testing.T) {
	s := broken{newPods()}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "", ""))
	batch.Update(nil)
	err := batch.to(s)
	require.ErrorIs(t, err, errUndecodable)
	require.ErrorIs(t, err, errNilObject)
	batch.Reset()
	batch.Update(pod("", "a", "", ""))
	require.NoError(t, batch.to(s))
}
