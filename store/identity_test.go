package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func keyA() Key { return Key{Namespace: "n", Name: "a"} }

func TestVersionToldBesideAnObjectCounts(t *testing.T) {
	c := New(slimKey)
	require.NoError(t, c.Replace(nil, "1"))
	require.NoError(t, c.Apply(batchOf(Write[*slim]{Type: WriteAdd, Object: &slim{"n", "a", ""}, Version: Version{"u1", "2"}})))
	assert.True(t, c.Holds(keyA(), Version{"u1", "2"}))
	assert.Equal(t, "2", c.ResourceVersion())

	held, _ := c.Get(keyA())
	list := Listing[*slim]{
		Objects:         []*slim{{"n", "a", ""}, {"n", "b", ""}, {"n", "c", ""}},
		Identities:      []Identity{{Version: Version{"u1", "2"}}, {Key: Key{Namespace: "n", Name: "b"}, Version: Version{"u2", "3"}}},
		ResourceVersion: "3",
	}
	require.NoError(t, c.ReplaceAll(list))
	again, _ := c.Get(keyA())
	assert.Same(t, held, again, "it is known to be unchanged")
	assert.True(t, c.Holds(Key{Namespace: "n", Name: "b"}, Version{"u2", "3"}))
	assert.Equal(t, []string{"n/a", "n/b", "n/c"}, names(c.All()), "of the last one nothing is told")

	heard := listen(c)
	require.NoError(t, c.Apply(batchOf(Write[*slim]{Type: WriteDeleteKey, Key: keyA(), Version: Version{ResourceVersion: "4"}})))
	assert.Equal(t, "4", c.ResourceVersion())
	list.Identities[1].Version.UID = "u9"
	require.NoError(t, c.ReplaceAll(list))
	assert.Contains(t, heard.changes, "Deletion n/b u2@3 unseen", "another UID is another object")
}

func TestVersionToldBesideAnObjectIsStrongerThanItsOwn(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	w := Write[*corev1.Pod]{Type: WriteAdd, Object: pod("n", "a", "u1", "2"), Version: Version{"u1", "3"}}
	require.NoError(t, c.Apply(batchOf(w)))
	assert.Equal(t, "3", c.ResourceVersion())
	assert.True(t, c.Holds(keyA(), Version{"u1", "3"}))
}

func TestVersionToldBesideAnObjectThatSaysItTakesNoSpace(t *testing.T) {
	c := newPods()
	w := Write[*corev1.Pod]{Type: WriteAdd, Object: pod("n", "a", "u1", "2"), Version: Version{"u1", "2"}}
	require.NoError(t, c.Apply(batchOf(w)))
	assert.False(t, c.carries.Load())
}

func TestKeyToldBesideAnObjectMustBeItsKey(t *testing.T) {
	other := Key{Namespace: "n", Name: "other"}
	c := New(slimKey)
	require.NoError(t, c.Replace(nil, "1"))
	require.NoError(t, c.Apply(batchOf(Write[*slim]{Type: WriteAdd, Object: &slim{"n", "a", ""}, Key: keyA()})))

	err := c.Apply(batchOf(Write[*slim]{Type: WriteUpdate, Object: &slim{"n", "a", ""}, Key: other}))
	require.ErrorIs(t, err, ErrKeyMismatch)
	assert.ErrorContains(t, err, `"n/other": `)
	assert.ErrorContains(t, err, `: "n/a"`)
	require.NoError(t, c.DeleteKey(other))

	err = c.ReplaceAll(Listing[*slim]{Objects: []*slim{{}}, Identities: []Identity{{Key: keyA()}}, ResourceVersion: "2"})
	require.ErrorIs(t, err, ErrNoName)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "what is held under the key stays")
	assert.Equal(t, "1", c.ResourceVersion())

	gone := Write[*slim]{Type: WriteDelete, Object: &slim{}, Key: keyA(), Version: Version{"u1", "3"}}
	require.NoError(t, c.Apply(batchOf(gone)), "the key is enough for a deletion")
	assert.Zero(t, c.Len())
	assert.Equal(t, "3", c.ResourceVersion())
}

func TestKeyToldToAPartitionMayLackTheCluster(t *testing.T) {
	c := New(slimKey)
	p, err := c.Partition(Scope{Cluster: "c1", Namespace: "n"})
	require.NoError(t, err)
	require.NoError(t, p.Apply(batchOf(Write[*slim]{Type: WriteAdd, Object: &slim{"n", "a", ""}, Key: keyA()})))
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))

	outside := Key{Namespace: "elsewhere", Name: "a"}
	for _, write := range []WriteType{WriteAdd, WriteDelete} {
		err = p.Apply(batchOf(Write[*slim]{Type: write, Object: &slim{"elsewhere", "a", ""}, Key: outside}))
		require.ErrorIs(t, err, ErrOutOfScope, "%v", write)
	}
	require.Error(t, p.Apply(batchOf(Write[*slim]{Type: WriteDelete, Object: &slim{}, Key: outside})))
}

func TestVersionsAreToldToAStoreWithoutBatches(t *testing.T) {
	c := New(slimKey)
	pods := Transform(&plain[*slim]{Store: c}, ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	for i, write := range []func() error{
		func() error { return pods.Add(pod("n", "b", "u2", "2")) },
		func() error { return pods.Update(pod("n", "b", "u2", "3")) },
		func() error { return pods.Delete(pod("n", "b", "u2", "4")) },
		func() error { return pods.Delete(failing(pod("n", "b", "u2", "5"), "error")) },
	} {
		require.NoError(t, write())
		assert.Equal(t, []string{"2", "3", "4", "5"}[i], pods.ResourceVersion())
	}
	require.Error(t, pods.Add(failing(pod("n", "c", "u3", "6"), "nameless")))
	assert.Equal(t, "5", pods.ResourceVersion(), "a write that failed tells nothing")
	require.Error(t, pods.Update(failing(pod("n", "d", "u4", "7"), "error")))
	assert.Equal(t, "5", pods.ResourceVersion())
	requireRefused(t, pods.Replace([]*corev1.Pod{pod("n", "e", "u5", "8"), failing(pod("n", "a", "u1", "7"), "error")}, "8"), errRefused)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "the store behind cannot keep what it is not given")
}

// bookmarked counts bookmarks.
type bookmarked struct {
	Store[*corev1.Pod]
	count int
}

func (b *bookmarked) Bookmark(resourceVersion string) error {
	b.count++
	return b.Store.Bookmark(resourceVersion)
}

func TestVersionsThatObjectsSayAreNotToldTwice(t *testing.T) {
	behind := &bookmarked{Store: newPods()}
	pods := Transform(behind, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil })
	require.NoError(t, pods.Replace(nil, "1"))
	require.NoError(t, pods.Add(pod("n", "a", "u1", "2")))
	assert.Zero(t, behind.count)
	require.NoError(t, Batches(pods).Apply(batchOf(Write[*corev1.Pod]{Type: WriteDeleteKey, Key: keyA(), Version: Version{"u1", "3"}})))
	assert.Equal(t, 1, behind.count)
	assert.Equal(t, "3", pods.ResourceVersion())
}

func TestStoreWithoutBatchesCannotKeepWhatIsNotGiven(t *testing.T) {
	behind := &plain[*corev1.Pod]{Store: newPods()}
	require.NoError(t, behind.Add(pod("n", "a", "u1", "1")))
	err := Batches[*corev1.Pod](behind).ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{keyA()}, ResourceVersion: "2"})
	requireRefused(t, err, ErrNotHeld)
	assert.Equal(t, []string{"Add"}, behind.calls)
}

func TestKeyOfIsTheKeyInTheStore(t *testing.T) {
	c := newPods()
	key, err := c.KeyOf(pod("n", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, keyA(), key)
	_, err = c.KeyOf(nil)
	require.ErrorIs(t, err, ErrNilObject)
	_, err = New[string](nil).KeyOf("a")
	require.ErrorIs(t, err, ErrNoKeyFunc)

	p, err := c.Partition(Scope{Cluster: "c1", Namespace: "n"})
	require.NoError(t, err)
	key, err = p.KeyOf(pod("n", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, Key{"c1", "n", "a"}, key)
	_, err = p.KeyOf(pod("m", "a", "", ""))
	require.ErrorIs(t, err, ErrOutOfScope)
}
