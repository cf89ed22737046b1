package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S4 and store-S5.

func TestBadObjectsStopNothingElse(t *testing.T) {
	c := newPods()
	held := pod("n", "held", "u0", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))

	err := c.Replace([]*corev1.Pod{pod("n", "good", "u1", "2"), nil, pod("n", "", "u0", "3")}, "4")

	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 2)
	require.ErrorIs(t, err, errNilObject)
	require.ErrorIs(t, err, errNoName)
	assert.ErrorContains(t, err, `*v1.Pod in namespace "n": object has no usable key: its name is empty`)
	assert.Equal(t, []string{"n/good", "n/held"}, names(c.All()), "the object whose UID came without a name is kept")
	assert.Equal(t, "1", c.ResourceVersion(), "the version stays before what is lacking")
}

func TestWritesOfBadObjectsLeaveEverythingAsItWas(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u", "1")}, "1"))
	rec := follow(c)
	for name, write := range map[string]func(*corev1.Pod) error{"Add": c.Add, "Update": c.Update, "Delete": c.Delete} {
		for _, bad := range []*corev1.Pod{nil, {}, pod("n", "", "u", "9")} {
			var rejected *RejectedError
			require.ErrorAs(t, write(bad), &rejected, name)
		}
	}
	assert.Empty(t, rec.changes())
	assert.Equal(t, []string{"n/a"}, names(c.All()))
	assert.Equal(t, "1", c.ResourceVersion())
}

func TestResourceVersionStaysBeforeARejectedObject(t *testing.T) {
	bad := errors.New("bad")
	c := New(func(p *corev1.Pod) (Key, error) {
		if p.Labels["bad"] != "" {
			return Key{}, bad
		}
		return ObjectKey(p)
	})
	index, err := AddIndex(c, "panics", func(p *corev1.Pod) []string {
		if p.Annotations["panic"] != "" {
			panic("ouch")
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "1")}, "1"))

	poison := pod("", "a", "u", "2")
	poison.Annotations = map[string]string{"panic": "yes"}
	err = c.Update(poison)
	require.ErrorIs(t, err, ErrPanic)
	assert.ErrorContains(t, err, `"a" at resource version "2": index "panics": function for "a": panic: ouch`)
	require.NoError(t, c.Add(pod("", "b", "u2", "3")))
	require.NoError(t, c.Bookmark("4"))
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Equal(t, 2, c.Len(), "everything else goes on")

	require.NoError(t, c.Update(pod("", "a", "u", "5")))
	assert.Equal(t, "5", c.ResourceVersion(), "the object was stored at last")

	require.Error(t, c.Update(poison))
	require.NoError(t, c.Delete(pod("", "a", "u", "6")))
	assert.Equal(t, "6", c.ResourceVersion(), "the object is gone")

	keyless := pod("", "k", "u3", "7")
	keyless.Labels = map[string]string{"bad": "yes"}
	require.ErrorIs(t, c.Add(keyless), bad)
	require.NoError(t, c.Bookmark("8"))
	assert.Equal(t, "6", c.ResourceVersion())
	require.NoError(t, c.Replace(nil, "9"))
	assert.Equal(t, "9", c.ResourceVersion(), "a list without rejections tells everything")
	assert.Empty(t, slices.Collect(index.Values()))
}

func TestReplaceKeepsWhatIsHeldUnderARejectedKey(t *testing.T) {
	c := newPods()
	_, err := AddIndex(c, "panics", func(p *corev1.Pod) []string { return []string{p.Labels["must"]}[len(p.Labels):] })
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "1"), pod("", "b", "u2", "1")}, "1"))
	rec := follow(c)
	bad := pod("", "a", "u", "2")
	bad.Labels = map[string]string{"x": "", "y": ""}

	require.ErrorIs(t, c.Replace([]*corev1.Pod{bad}, "2"), ErrPanic)

	assert.Equal(t, []string{"Deletion b 1"}, rec.changes(), "the rejected object is not taken for a missing one")
	assert.Equal(t, "1", c.ResourceVersion())
	require.NoError(t, c.DeleteKey(Key{Name: "a"}))
	require.NoError(t, c.Bookmark("3"))
	assert.Equal(t, "3", c.ResourceVersion(), "nothing is lacking any more")
}

func TestKeyFuncWithoutAKeyIsARejection(t *testing.T) {
	c := New(func(*Key) (Key, error) { return Key{}, nil })
	assert.ErrorIs(t, c.Add(&Key{}), errNoName)
	failing := New(func(*Key) (Key, error) { return Key{Name: "half"}, errNoName })
	var rejected *RejectedError
	require.ErrorAs(t, failing.Add(&Key{}), &rejected)
	assert.Zero(t, rejected.Rejections[0].Key, "a key that came with an error is none")
}

func TestPanicOfAKeyFuncIsARejection(t *testing.T) {
	c := New(keyItself)
	err := c.Replace([]*Key{{Name: "a"}, nil, {Name: "b"}}, "")
	assert.ErrorIs(t, err, ErrPanic)
	assert.Equal(t, []string{"a", "b"}, names(c.All()))
}

func TestRejectedErrorStaysShort(t *testing.T) {
	c := newPods()
	err := c.Replace(make([]*corev1.Pod, 1000), "1")
	assert.ErrorContains(t, err, "store rejected 1000 object(s)")
	assert.ErrorContains(t, err, "and 995 more")
}

func TestObjectsThatCannotBeHadAreLacking(t *testing.T) {
	c := newPods()
	undecodable := errors.New("undecodable")
	held := pod("", "held", "u1", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))
	rec := follow(c)

	lacking := []Rejection{{Key: Key{Name: "held"}, Err: undecodable}, {Key: Key{Name: "new"}, Err: undecodable}}
	err := (list[*corev1.Pod]{Objects: []*corev1.Pod{pod("", "other", "u2", "2"), nil}, Failed: lacking, ResourceVersion: "3"}).to(c)
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Len(t, rejected.Rejections, 3)
	assert.ErrorIs(t, err, undecodable)
	assert.Equal(t, []string{"Addition other 2"}, rec.changes())
	assert.Equal(t, "1", c.ResourceVersion())

	require.NoError(t, c.Replace([]*corev1.Pod{held}, "4"))
	assert.Equal(t, "4", c.ResourceVersion())
	var batch writes[*corev1.Pod]
	batch.Fail(lacking[0])
	require.ErrorIs(t, batch.to(c), undecodable)
	require.NoError(t, c.Bookmark("5"))
	assert.Equal(t, "4", c.ResourceVersion())
	require.NoError(t, c.DeleteKey(Key{Name: "held"}))
	require.NoError(t, c.Bookmark("6"))
	assert.Equal(t, "6", c.ResourceVersion())
}

func TestBadWritesOfABatchStopNoOthers(t *testing.T) {
	c := newPods()
	_, err := AddIndex(c, "tag", func(p *corev1.Pod) []string { return []string{p.Labels["must"]}[len(p.Labels):] })
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "b", "u2", "1")}, "1"))
	poison := pod("", "b", "u2", "4")
	poison.Labels = map[string]string{"x": "", "y": ""}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "2"))
	batch.Add(pod("", "early", "u9", "3"))
	batch.Update(poison)
	batch.Add(nil)
	batch.Append(Write[*corev1.Pod]{Key: Key{Name: "odd"}})
	batch.Add(pod("", "c", "u3", "7"))

	changes, err := applied(c, &batch)

	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 3)
	require.ErrorIs(t, rejected.Rejections[0].Err, ErrPanic)
	require.ErrorIs(t, rejected.Rejections[1].Err, errNilObject)
	require.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, []string{"Addition a 2", "Addition early 3", "Addition c 7"}, inWords(changes))
	assert.Equal(t, "3", c.ResourceVersion(), "what came before the bad one is complete")
	got, _ := c.Get(Key{Name: "b"})
	assert.Equal(t, "1", got.ResourceVersion)
}

func TestLackIsHealedByALaterWriteOfTheBatch(t *testing.T) {
	for name, heal := range map[string]func(*writes[*corev1.Pod]){
		"put":       func(b *writes[*corev1.Pod]) { b.Update(pod("", "a", "u1", "3")) },
		"delete":    func(b *writes[*corev1.Pod]) { b.Delete(pod("", "a", "u1", "3")) },
		"deleteKey": func(b *writes[*corev1.Pod]) { b.DeleteKey(Key{Name: "a"}); b.Bookmark("3") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "1"))
			var batch writes[*corev1.Pod]
			batch.Fail(Rejection{Key: Key{Name: "a"}, Err: errUndecodable})
			batch.Bookmark("2")
			require.ErrorIs(t, batch.to(c), errUndecodable)
			require.Equal(t, "1", c.ResourceVersion())
			batch.Bookmark("")
			heal(&batch)
			require.ErrorIs(t, batch.to(c), errUndecodable, "it is told all the same")
			assert.Equal(t, "3", c.ResourceVersion())
		})
	}
}
