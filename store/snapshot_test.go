package store

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// These tests hold store-S1.

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
