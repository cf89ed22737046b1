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

func TestCacheKeepsTheLastObjectOfAKey(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(pod("ns", "a", "u1", "1")))
	require.NoError(t, c.Update(pod("ns", "a", "u1", "2")))

	got, ok := c.Get(Key{Namespace: "ns", Name: "a"})
	require.True(t, ok)
	assert.Equal(t, "2", got.ResourceVersion)
	assert.Equal(t, 1, c.Len())

	require.NoError(t, c.Delete(pod("ns", "a", "u1", "3")))
	_, ok = c.Get(Key{Namespace: "ns", Name: "a"})
	assert.False(t, ok)
	assert.Zero(t, c.Len())
}

func TestCacheDeletesAnUnknownObjectSilently(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	rec := follow(c)
	require.NoError(t, c.Delete(pod("ns", "a", "u1", "3")))
	require.NoError(t, c.DeleteKey(Key{Name: "b"}))
	assert.Empty(t, rec.changes())
	assert.Equal(t, "3", c.ResourceVersion(), "the deletion was seen all the same")
}

func TestCacheResourceVersionFollowsWhatItIsTold(t *testing.T) {
	c := newPods()
	assert.Empty(t, c.ResourceVersion())
	require.NoError(t, c.Add(pod("", "a", "u", "3")))
	require.NoError(t, c.Bookmark("4"))
	assert.Empty(t, c.ResourceVersion(), "nobody knows what is missing")
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "3")}, "10"))
	assert.Equal(t, "10", c.ResourceVersion(), "a Replace has the version of the list, not of its objects")
	require.NoError(t, c.Update(pod("", "a", "u", "11")))
	assert.Equal(t, "11", c.ResourceVersion())
	require.NoError(t, c.Bookmark("20"))
	assert.Equal(t, "20", c.ResourceVersion())
	require.NoError(t, c.DeleteKey(Key{Name: "a"}))
	assert.Equal(t, "20", c.ResourceVersion(), "DeleteKey is told no version")
	require.NoError(t, c.Update(pod("", "b", "u2", "")))
	assert.Equal(t, "20", c.ResourceVersion(), "an object without a version moves nothing")
}

func TestReadsRunInTheOrderOfKeys(t *testing.T) {
	c := newPods()
	for _, p := range []*corev1.Pod{pod("b", "2", "", ""), pod("a", "9", "", ""), pod("b", "1", "", ""), pod("", "node", "", ""), pod("ba", "1", "", "")} {
		require.NoError(t, c.Add(p))
	}
	assert.Equal(t, []string{"node", "a/9", "b/1", "b/2", "ba/1"}, names(c.All()))
	assert.Equal(t, []string{"b/1", "b/2"}, names(c.Namespace("b")))
	assert.Equal(t, []string{"node"}, names(c.Namespace("")))
	assert.Empty(t, names(c.Namespace("c")))
	assert.Empty(t, names(c.Namespace("aa")))
}

func TestNamespaceSpansClusters(t *testing.T) {
	c := New(keyItself)
	for _, cluster := range []string{"", "c1", "c2", "c2x"} {
		for _, namespace := range []string{"a", "b", "c"} {
			if cluster == "c2" && namespace == "b" {
				continue
			}
			require.NoError(t, c.Add(&Key{cluster, namespace, "1"}))
			require.NoError(t, c.Add(&Key{cluster, namespace, "2"}))
		}
	}
	assert.Equal(t, []string{"b/1", "b/2", "c1|b/1", "c1|b/2", "c2x|b/1", "c2x|b/2"}, names(c.Namespace("b")))
	assert.Empty(t, names(c.Namespace("aa")))
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

// TestCacheAgainstAModel holds the cache, an index and a follower to a plain
// map.
func TestCacheAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newPods()
		byNode, err := AddIndex(c, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName, p.Spec.NodeName} })
		require.NoError(rt, err)
		rec := follow(c)
		model := map[Key]*corev1.Pod{}
		version := 0
		draw := func() *corev1.Pod {
			version++
			p := pod(rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(rt, "namespace"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"),
				rapid.SampledFrom([]string{"u1", "u2"}).Draw(rt, "uid"), strconv.Itoa(version))
			p.Spec.NodeName = rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "node")
			return p
		}
		keyOf := func(p *corev1.Pod) Key { return Key{Namespace: p.Namespace, Name: p.Name} }
		rt.Repeat(map[string]func(*rapid.T){
			"put":    func(rt *rapid.T) { p := draw(); require.NoError(rt, c.Add(p)); model[keyOf(p)] = p },
			"delete": func(rt *rapid.T) { p := draw(); require.NoError(rt, c.Delete(p)); delete(model, keyOf(p)) },
			"replace": func(rt *rapid.T) {
				next := map[Key]*corev1.Pod{}
				for range rapid.IntRange(0, 5).Draw(rt, "n") {
					p := draw()
					next[keyOf(p)] = p
				}
				for key, p := range model {
					if next[key] == nil && rapid.Bool().Draw(rt, "stays") {
						next[key] = p
					}
				}
				version++
				require.NoError(rt, c.Replace(slices.Collect(maps.Values(next)), strconv.Itoa(version)))
				model = next
			},
			"": func(rt *rapid.T) {
				keys := slices.SortedFunc(maps.Keys(model), Key.Compare)
				var got []Key
				for key, p := range c.All() {
					got = append(got, key)
					require.Same(rt, model[key], p)
				}
				require.Equal(rt, keys, got)
				require.Equal(rt, len(model), c.Len())
				for _, node := range []string{"x", "y"} {
					want := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return model[k].Spec.NodeName != node })
					var got []Key
					for key := range byNode.Get(node) {
						got = append(got, key)
					}
					require.Equal(rt, len(want), len(got))
					require.True(rt, slices.Equal(want, got), "index %q: want %v, got %v", node, want, got)
				}
				require.Equal(rt, model, rec.state, "a follower that applies the changes has the same state")
				require.Empty(rt, rec.illegal)
			},
		})
	})
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
