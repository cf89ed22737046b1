package store

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// These tests hold store-S9.

func TestReplaceReportsRealChangesOnly(t *testing.T) {
	c := newPods()
	same := pod("", "same", "u1", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{same, pod("", "changed", "u2", "2"), pod("", "gone", "u3", "3")}, "3"))
	rec := follow(c)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "changed", "u2", "5"), pod("", "same", "u1", "1"), pod("", "new", "u4", "6")}, "6"))

	assert.Equal(t, []string{"Deletion gone 3", "Modification changed 2->5", "Addition new 6"}, rec.changes())
	got, _ := c.Get(Key{Name: "same"})
	assert.Same(t, same, got, "an unchanged object keeps its pointer")
}

func TestReplaceMakesNoSnapshot(t *testing.T) {
	listing := list[*Key]{Objects: []*Key{{Name: "a"}, {Name: "b"}}, ResourceVersion: "1"}
	t.Run("objects without versions", func(t *testing.T) {
		c := New(keyItself)
		require.NoError(t, listing.to(c))
		require.NoError(t, listing.to(c))
		assert.False(t, c.Has(Key{Name: "a"}, Version{"u", "1"}, 7))
		assert.Zero(t, snapshots(c))
	})
	t.Run("versions beside the objects", func(t *testing.T) {
		c := New(keyItself)
		listing.Told = []Write[*Key]{{Version: Version{"u", "1"}, Hash: 7}, {Version: Version{"v", "1"}}}
		require.NoError(t, listing.to(c))
		require.NoError(t, listing.to(c))
		assert.Zero(t, snapshots(c))
		assert.True(t, c.Has(Key{Name: "a"}, Version{"u", "1"}, 7))
	})
}

// These tests hold store-S9 for a list that comes object by object.

// A list that comes in parts does what Replace does with the last word on each key.
func TestListInPartsIsReplace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		indexed := func() (*podCache, *Index[string, *corev1.Pod]) {
			c := newPods()
			index, err := AddIndex(c, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName, p.Name} })
			require.NoError(t, err)
			return c, index
		}
		inParts, partsIndex := indexed()
		atOnce, onceIndex := indexed()
		for round := range 3 {
			batch, _ := begun(inParts)
			var objects []*corev1.Pod
			for range rapid.IntRange(0, 12).Draw(t, "objects") {
				namespace, name := rapid.SampledFrom([]string{"n", "n", "m"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "name")
				p := pod(namespace, name, namespace+name, strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "version")))
				p.Spec.NodeName = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "node")
				gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
				w := adding(p)
				if gone {
					w = deleting(p)
				}
				require.NoError(t, batch.Write(w))
				rest := objects[:0:0]
				for _, other := range objects {
					if other.Name == "" && !gone || other.Name != p.Name || other.Namespace != p.Namespace {
						rest = append(rest, other)
					}
				}
				if objects = rest; !gone {
					objects = append(objects, p)
				}
			}
			version := strconv.Itoa(10 + round)
			want, got := atOnce.Replace(objects, version), batch.Commit(version)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
			require.Equal(t, names(atOnce.All()), names(inParts.All()))
			require.Equal(t, names(onceIndex.All()), names(partsIndex.All()))
			require.Equal(t, atOnce.ResourceVersion(), inParts.ResourceVersion())
			checkCache(t, inParts)
			checkIndex(t, partsIndex)
		}
	})
}

func TestListInPartsFindsTheValuesOfIndexesAtOnce(t *testing.T) {
	c, asked := newPods(), 0
	index := func(p *corev1.Pod) []string { asked++; return []string{p.Spec.NodeName} }
	byNode, err := AddIndex(c, "node", index)
	require.NoError(t, err)
	check := func() { checkCache(t, c); checkIndex(t, byNode) }
	list := func() Batch[*corev1.Pod] {
		var objects []*corev1.Pod
		for n := range 10 {
			objects = append(objects, sized(fmt.Sprint("a", n), n, 5))
		}
		batch, err := begun(c, objects...)
		require.NoError(t, err)
		return batch
	}
	batch := list()
	assert.Equal(t, 10, asked)
	batch.Discard()
	check()
	assert.Zero(t, postingsOf(c.indexes[0].tree).Len())

	batch = list()
	require.NoError(t, batch.Write(deleting(sized("a3", 3, 6))))
	require.NoError(t, batch.Commit("9"))
	batch.Discard()
	assert.Equal(t, 20, asked, "and not once more")
	assert.Equal(t, 9, c.Len())
	check()

	// Objects that are held already, and an index that comes meanwhile.
	batch = list()
	late, err := AddIndex(c, "late", func(p *corev1.Pod) []string { return []string{p.Name} })
	require.NoError(t, err)
	require.NoError(t, batch.Commit("10"))
	assert.Len(t, names(late.Get("a3")), 1)
	check()
}

func TestListInPartsAsksNothingOfObjectsThatAreHeld(t *testing.T) {
	c, asked := newPods(), 0
	_, err := AddIndex(c, "node", func(p *corev1.Pod) []string { asked++; return []string{p.Spec.NodeName} })
	require.NoError(t, err)
	for range 2 {
		batch, err := begun(c, sized("a", 1, 5))
		require.NoError(t, err)
		require.NoError(t, batch.Commit("9"))
		assert.Equal(t, 1, asked)
	}
	checkCache(t, c)
}

func TestLastWordOnAKeyOfAListingCounts(t *testing.T) {
	held := pod("", "a", "u1", "1")
	same := func() *corev1.Pod { return pod("", "a", "u1", "1") }
	changed := func(version string) *corev1.Pod { return pod("", "a", "u1", version) }
	bad := func() *corev1.Pod {
		p := pod("", "a", "u1", "9")
		p.Finalizers = []string{"poison"}
		return p
	}
	a := []Key{{Name: "a"}}
	lacking := []Rejection{{Key: a[0], Err: errUndecodable}}
	for name, tt := range map[string]struct {
		listing  list[*corev1.Pod]
		changes  []string
		rejected int
		whole    bool // nothing is lacking
	}{
		"unchanged, then changed":       {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"unchanged, then the same":      {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{same()}}, nil, 0, true},
		"unchanged, then bad":           {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{bad()}}, nil, 1, false},
		"unchanged, then lacking":       {list[*corev1.Pod]{Unchanged: a, Failed: lacking}, nil, 1, false},
		"unchanged twice":               {list[*corev1.Pod]{Unchanged: []Key{a[0], a[0]}}, nil, 0, true},
		"changed, then changed":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"changed, then the same":        {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), same()}}, nil, 0, true},
		"changed, the same, changed":    {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), same(), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"changed, then bad":             {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), bad()}}, nil, 1, false},
		"changed, bad, changed":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), bad(), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"bad, then changed":             {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"bad, then the same":            {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), same()}}, nil, 0, true},
		"the same, then changed":        {list[*corev1.Pod]{Objects: []*corev1.Pod{same(), changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"the same, then bad":            {list[*corev1.Pod]{Objects: []*corev1.Pod{same(), bad()}}, nil, 1, false},
		"changed, then lacking":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2")}, Failed: lacking}, nil, 1, false},
		"bad, then bad":                 {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), bad()}}, nil, 1, false},
		"bad, then lacking":             {list[*corev1.Pod]{Objects: []*corev1.Pod{bad()}, Failed: lacking}, nil, 1, false},
		"unchanged, changed, lacking":   {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{changed("2")}, Failed: lacking}, nil, 1, false},
		"nothing":                       {list[*corev1.Pod]{}, []string{"Deletion a 1"}, 0, true},
		"unchanged, but another listed": {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{pod("", "b", "u2", "2")}}, []string{"Addition b 2"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			index, err := AddIndex(c, "tag", func(p *corev1.Pod) []string {
				if len(p.Finalizers) > 0 {
					panic("poison")
				}
				return []string{p.ResourceVersion}
			})
			require.NoError(t, err)
			require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))
			rec := follow(c)

			tt.listing.ResourceVersion = "10"
			err = tt.listing.to(c)

			if tt.rejected > 0 {
				var rejected *RejectedError
				require.ErrorAs(t, err, &rejected)
				assert.Len(t, rejected.Rejections, tt.rejected)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, append([]string{}, tt.changes...), rec.changes())
			want := "1"
			if tt.whole {
				want = "10"
			}
			assert.Equal(t, want, c.ResourceVersion())
			checkCache(t, c)
			checkIndex(t, index)
			if len(tt.changes) == 0 {
				got, _ := c.Get(a[0])
				assert.Same(t, held, got)
			}
		})
	}
}

func TestUnchangedObjectThatIsNotHeldIsLacking(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	err := (list[*corev1.Pod]{Unchanged: []Key{{Name: "a"}}, Objects: []*corev1.Pod{pod("", "b", "u2", "2")}, ResourceVersion: "2"}).to(c)
	require.ErrorIs(t, err, ErrNotHeld)
	assert.ErrorContains(t, err, `"a"`)
	assert.Equal(t, []string{"b"}, names(c.All()))
	assert.Equal(t, "1", c.ResourceVersion(), "somebody has to fetch it")

	require.NoError(t, c.Add(pod("", "a", "u1", "2")))
	assert.Equal(t, "2", c.ResourceVersion())
	require.NoError(t, (list[*corev1.Pod]{Unchanged: []Key{{Name: "c"}}, Objects: []*corev1.Pod{pod("", "c", "u3", "3")}, ResourceVersion: "3"}).to(c))
	assert.Equal(t, "3", c.ResourceVersion(), "it was there after all")
}

func TestInitialIsTheFirstListAlsoIfSomeOfItIsBad(t *testing.T) {
	c := newPods()
	rec := follow(c)
	require.Error(t, c.Replace([]*corev1.Pod{nil, pod("", "a", "u1", "1")}, "1"))
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "2"))
	require.Len(t, rec.commits, 2)
	assert.True(t, rec.commits[0].Initial)
	assert.Empty(t, rec.commits[0].ResourceVersion)
	assert.False(t, rec.commits[1].Initial)
	assert.Equal(t, "2", rec.commits[1].ResourceVersion)
}
