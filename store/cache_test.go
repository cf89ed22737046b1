package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// These tests hold store-S1 and store-S7.

func pod(namespace, name, uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func newPods() *Cache[*corev1.Pod] { return New(ObjectKey[*corev1.Pod]) }

// names returns the keys of a walk, as text.
func names[T any](seq func(func(Key, T) bool)) []string {
	all := []string{}
	for key := range seq {
		all = append(all, key.String())
	}
	return all
}

func TestWalkSeesOneMomentWhileItsBodyWrites(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "", ""), pod("", "b", "", ""), pod("", "c", "", "")}, "1"))
	var seen []string
	for key, p := range c.All() {
		seen = append(seen, key.Name)
		require.NoError(t, c.Delete(p))
		require.NoError(t, c.Add(pod("", key.Name+"x", "", "")))
	}
	assert.Equal(t, []string{"a", "b", "c"}, seen)
	assert.Equal(t, []string{"ax", "bx", "cx"}, names(c.All()))
}

func TestSnapshotNeverChanges(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	s := c.Snapshot()
	require.NoError(t, c.Update(pod("n", "a", "u1", "2")))
	require.NoError(t, c.Add(pod("n", "b", "u2", "3")))

	got, ok := s.Get(Key{Namespace: "n", Name: "a"})
	require.True(t, ok)
	assert.Equal(t, "1", got.ResourceVersion)
	assert.Equal(t, "1", s.ResourceVersion())
	assert.Equal(t, []string{"n/a"}, names(s.All()))
	assert.Equal(t, 1, s.Len())
	_, ok = s.Get(Key{Namespace: "n", Name: "b"})
	assert.False(t, ok)
}

func TestRecreationIsADeletionAndAnAddition(t *testing.T) {
	for _, way := range []string{"Update", "Replace"} {
		t.Run(way, func(t *testing.T) {
			c := newPods()
			require.NoError(t, c.Add(pod("", "a", "u1", "1")))
			rec := follow(c)
			if way == "Update" {
				require.NoError(t, c.Update(pod("", "a", "u2", "7")))
			} else {
				require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u2", "7")}, "7"))
			}
			assert.Equal(t, []string{"Deletion a 1", "Addition a 7"}, rec.changes())
			got, _ := c.Get(Key{Name: "a"})
			assert.Equal(t, types.UID("u2"), got.UID)
		})
	}
}

func TestDeletionCarriesTheFinalStateWhereItIsKnown(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1"), pod("", "b", "u2", "2"), pod("", "c", "u3", "2")}, "2"))
	rec := follow(c)
	require.NoError(t, c.Delete(pod("", "a", "u1", "5")))
	require.NoError(t, c.DeleteKey(Key{Name: "b"}))
	require.NoError(t, c.Replace(nil, "6"))

	require.Len(t, rec.all, 3)
	a, b, gone := rec.all[0], rec.all[1], rec.all[2]
	assert.True(t, a.FinalStateKnown)
	assert.Equal(t, "5", a.Object.ResourceVersion)
	assert.Equal(t, "1", a.Prior.ResourceVersion)
	assert.False(t, b.FinalStateKnown)
	assert.Same(t, b.Prior, b.Object)
	assert.False(t, gone.FinalStateKnown)
	assert.Equal(t, Key{Name: "c"}, gone.Key)
}

func TestDeletionOfAnotherObjectIsNotTheFinalState(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(pod("", "a", "u2", "5")))
	rec := follow(c)
	require.NoError(t, c.Delete(pod("", "a", "u1", "3")))
	require.Equal(t, []string{"Deletion a 5"}, rec.changes())
	assert.False(t, rec.all[0].FinalStateKnown)
	assert.Equal(t, types.UID("u2"), rec.all[0].Version.UID)
}

func TestNewPanicsWithoutAKeyFunc(t *testing.T) {
	assert.PanicsWithValue(t, "store: New needs a KeyFunc, such as store.ObjectKey", func() { New[*Key](nil) })
}

func TestConcurrentReadersSeeWholeCommits(t *testing.T) {
	// Every commit gives all objects the same version: a reader that sees two
	// versions in one walk saw half a commit.
	c := newPods()
	byName, err := AddIndex(c, "all", func(*corev1.Pod) []string { return []string{"all"} })
	require.NoError(t, err)
	write := func(version int) {
		var all []*corev1.Pod
		for i := range 50 {
			all = append(all, pod("n", fmt.Sprint(i), "u", strconv.Itoa(version)))
		}
		require.NoError(t, c.Replace(all, strconv.Itoa(version)))
	}
	write(1)
	stop := reading(4, func() bool {
		for _, walk := range []func(func(Key, *corev1.Pod) bool){c.All(), c.Namespace("n"), byName.Get("all")} {
			versions, n := map[string]bool{}, 0
			for _, p := range walk {
				versions[p.ResourceVersion] = true
				n++
			}
			if len(versions) != 1 || n != 50 {
				t.Errorf("a walk saw %d objects of versions %v", n, versions)
				return false
			}
		}
		c.Get(Key{Namespace: "n", Name: "7"})
		c.ResourceVersion()
		return true
	})
	for version := range 200 {
		write(version + 2)
	}
	stop()
}

func keyItself(k *Key) (Key, error) { return *k, nil }

func newKeys(t require.TestingT, keys ...Key) *Cache[*Key] {
	c := New(keyItself)
	var all []*Key
	for _, key := range keys {
		all = append(all, &key)
	}
	require.NoError(t, c.Replace(all, "1"))
	return c
}

func TestNamespaceOfASnapshotIsThatOfEveryCluster(t *testing.T) {
	c := newKeys(t, Key{"", "a", "x"}, Key{"", "a", "xy"}, Key{"", "a", "y"}, Key{"", "b", "x"}, Key{"c", "a", "x"})
	s := c.Snapshot()
	require.NoError(t, c.Replace(nil, "2"))
	for name, tt := range map[string]struct {
		seq  func(func(Key, *Key) bool)
		want []string
	}{
		"all":       {s.All(), []string{"a/x", "a/xy", "a/y", "b/x", "c|a/x"}},
		"namespace": {s.Namespace("a"), []string{"a/x", "a/xy", "a/y", "c|a/x"}},
	} {
		assert.Equal(t, tt.want, names(tt.seq), name)
		assert.Equal(t, 1, untilBreak(tt.seq), name)
	}
	assert.Equal(t, "1", s.ResourceVersion())
}

func TestReadsOfASnapshotAgainstAPlainList(t *testing.T) {
	part := rapid.SampledFrom([]string{"", "a", "b", "ab", "a\x00", "\x00"})
	key := rapid.Custom(func(t *rapid.T) Key {
		return Key{part.Draw(t, "cluster"), part.Draw(t, "namespace"), part.Draw(t, "name")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		held := map[Key]bool{}
		for _, k := range rapid.SliceOf(key).Draw(rt, "keys") {
			held[k] = k != Key{}
		}
		maps.DeleteFunc(held, func(_ Key, keep bool) bool { return !keep })
		c := newKeys(rt, slices.Collect(maps.Keys(held))...)
		checkCache(rt, c)
		from := key.Draw(rt, "from")
		for name, read := range map[string]struct {
			seq  func(func(Key, *Key) bool)
			keep func(Key) bool
		}{
			"all":       {c.All(), func(Key) bool { return true }},
			"namespace": {c.Namespace(from.Namespace), func(k Key) bool { return k.Namespace == from.Namespace }},
			"snapshot":  {c.Snapshot().Namespace(from.Namespace), func(k Key) bool { return k.Namespace == from.Namespace }},
		} {
			want := slices.SortedFunc(maps.Keys(held), Key.Compare)
			want = slices.DeleteFunc(want, func(k Key) bool { return !read.keep(k) })
			require.True(rt, slices.Equal(want, slices.Collect(first(read.seq))), "%s: want %v, got %v", name, want, names(read.seq))
		}
		_, ok := c.Snapshot().Get(from)
		require.Equal(rt, held[from], ok)
	})
}

func TestSnapshotIsSharedUntilTheNextCommit(t *testing.T) {
	c := newKeys(t, Key{Name: "a"})
	s := c.Snapshot()
	assert.Same(t, s, c.View.Snapshot())
	require.Error(t, c.Add(&Key{}))
	assert.Same(t, s, c.Snapshot(), "a write that is rejected is no commit")
	require.NoError(t, c.Replace([]*Key{{Name: "a"}}, "2"))
	assert.NotSame(t, s, c.Snapshot())
	assert.Equal(t, "1", s.ResourceVersion())
	assert.Equal(t, "2", c.Snapshot().ResourceVersion(), "also if only the version moved")
}

func TestSnapshotsAreTakenWhileAWriterReadsAndWrites(t *testing.T) {
	// A Replace walks the trees without the readers' lock, which those who take
	// a snapshot hold to copy them: for the race detector.
	c := newPods()
	byNode, err := AddIndex(c, "node", nodeOf)
	require.NoError(t, err)
	stop := reading(2, func() bool {
		s := c.Snapshot()
		names(byNode.On(s).Get("x"))
		s.Get(Key{Name: "a"})
		return assert.Len(t, names(s.All()), s.Len())
	})
	for range 300 {
		a, b := pod("", "a", "", ""), pod("", "b", "", "")
		a.Spec.Hostname, b.Spec.Hostname, a.Spec.NodeName = "h", "h", "x"
		require.NoError(t, c.Add(a))
		require.NoError(t, c.Add(b))
		require.NoError(t, c.Replace(nil, "1"))
	}
	stop()
}

func TestChangesOfASnapshotBuildItFromNothing(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(pod("n", "b", "u1", "1")))
	require.NoError(t, c.Add(pod("n", "a", "u2", "2")))
	all := slices.Collect(c.Snapshot().Changes())
	assert.Equal(t, []string{"Addition n/a 2", "Addition n/b 1"}, inWords(all))
	assert.Equal(t, Version{"u2", "2"}, all[0].Version)
	for range c.Snapshot().Changes() {
		break
	}
}
