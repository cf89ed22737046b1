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
				p := pod(rapid.SampledFrom([]string{"n", "n", "m"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "name"), "1", strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "version")))
				p.Spec.NodeName = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "node")
				gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
				w := adding(p)
				if gone {
					w = deleting(p)
				}
				require.NoError(t, batch.Write(w))
				if p.Name == "" && gone {
					continue // takes nothing back
				}
				rest := objects[:0:0]
				for _, other := range objects {
					if other.Name == "" || other.Name != p.Name || other.Namespace != p.Namespace {
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
