package store

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// check holds the cache to the model, and each of its parts to the others.
func (m *model) check(t *rapid.T) {
	checkCache(t, m.c)
	checkIndex(t, m.byTag)
	checkIndex(t, m.byRank)
	checkIndex(t, m.byHost)
	if m.late != nil {
		checkIndex(t, m.late)
	}
	checkQuiet(t, m.c)
	require.Equal(t, m.held, m.rec.state, "what followers were told")
	require.Empty(t, m.rec.illegal)
	for _, d := range m.doors {
		require.Equal(t, d.version, d.p.ResourceVersion())
		require.Equal(t, len(d.rejected) > 0, len(d.p.rejected) > 0)
	}
	m.checkState(t, m.c.Snapshot(), m.held)
	if m.pinned != nil {
		m.checkState(t, m.pinned, m.pinnedHeld)
	}
}

func (m *model) checkState(t *rapid.T, s *Snapshot[*corev1.Pod], held map[Key]*corev1.Pod) {
	keys := slices.SortedFunc(maps.Keys(held), Key.Compare)
	require.Equal(t, len(keys), s.Len())
	require.True(t, slices.Equal(keys, slices.Collect(first(s.All()))))
	for _, key := range keys {
		got, ok := s.Get(key)
		require.True(t, ok)
		require.Same(t, held[key], got)
	}
	tagged := map[string]bool{}
	for _, tag := range []string{"x", "y", "z", ""} {
		want := slices.DeleteFunc(slices.Clone(keys), func(key Key) bool { return !slices.Contains(held[key].Finalizers, tag) })
		tagged[tag] = len(want) > 0
		for _, x := range []*Index[string, *corev1.Pod]{m.byTag, m.late} {
			if x != nil && int(x.indexer.position) < len(s.indexes) { // else the state is older than the index
				got := slices.Collect(first(x.On(s).Get(tag)))
				require.True(t, slices.Equal(want, got), "%s %q: want %v, got %v", x.indexer.name, tag, want, got)
			}
		}
	}
	for tag := range m.byTag.On(s).Values() {
		require.True(t, tagged[tag], tag)
		delete(tagged, tag)
	}
	require.NotContains(t, slices.Collect(maps.Values(tagged)), true)
	require.True(t, slices.IsSortedFunc(slices.Collect(m.byHost.On(s).Values()), func(a, b string) int { return strings.Compare(b, a) }))
	last := math.Inf(-1)
	for key, p := range m.byRank.On(s).All() {
		ranks := slices.DeleteFunc(ranksOf(p), func(rank float64) bool { return rank < last })
		require.NotEmpty(t, ranks, "%v comes too late", key)
		last = slices.Min(slices.DeleteFunc(ranks, math.IsNaN))
	}
}

func first[K, V any](seq func(func(K, V) bool)) func(func(K) bool) {
	return func(yield func(K) bool) { seq(func(k K, _ V) bool { return yield(k) }) }
}

func TestEverythingAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"batch":   m.batch,
			"batch 2": m.batch,
			"replace": m.replace,
			"split":   m.split,
			"drop":    m.drop,
			"drop 2":  m.dropSome,
			"bypass":  m.bypass,
			"index":   m.addIndex,
			"pin":     func(*rapid.T) { m.pinned, m.pinnedHeld = m.c.Snapshot(), maps.Clone(m.held) },
			"":        m.check,
		})
	})
}
