package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestReadsAllocateNothing(t *testing.T) {
	c := newPods()
	byNode, err := AddIndex(c, "node", nodeOf)
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		p := pod("n", name, "u", "1")
		p.Spec.NodeName = "x"
		require.NoError(t, c.Add(p))
	}
	c.Snapshot()
	key := Key{Namespace: "n", Name: "b"}
	found := 0
	for name, read := range map[string]func(){
		"Get": func() {
			if _, ok := c.Get(key); ok {
				found++
			}
		},
		"All": func() {
			for range c.All() {
				found++
			}
		},
		"Len": func() { found += c.Len() },
	} {
		found = 0
		assert.Zero(t, testing.AllocsPerRun(100, read), name)
		assert.NotZero(t, found, name)
	}
	one, all := 0.0, 0.0
	one = testing.AllocsPerRun(100, func() {
		for range byNode.Get("x") {
			break
		}
	})
	all = testing.AllocsPerRun(100, func() {
		for range byNode.Get("x") {
			found++
		}
	})
	assert.Equal(t, one, all, "nothing for each object")
}

func nodeOf(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }

func TestUpdateOfWhatNoSnapshotHasAllocatesNothing(t *testing.T) {
	update := func(c *Cache[*corev1.Pod]) float64 {
		objects := [2]*corev1.Pod{pod("n", "a", "u", "1"), pod("n", "a", "u", "2")}
		objects[0].Spec.NodeName, objects[1].Spec.NodeName = "x", "x"
		i := 0
		return testing.AllocsPerRun(100, func() {
			if err := c.Update(objects[i%2]); err != nil {
				t.Error(err)
			}
			i++
		})
	}
	assert.Zero(t, update(newPods()), "without an index")

	c := newPods()
	_, err := AddIndex(c, "node", nodeOf)
	require.NoError(t, err)
	assert.LessOrEqual(t, update(c), 1.0, "with one, whose function allocates a slice")
}

func TestSmallPartOfALargeCacheIsWrittenForItsOwnPrice(t *testing.T) {
	const n = 50_000
	c := New(bookKey)
	_, err := AddIndex(c, "tag", func(b *book) []string { return b.tags })
	require.NoError(t, err)
	books := make([]*book, n)
	for i := range books {
		books[i] = tagged(fmt.Sprintf("%06d", i), "x")
	}
	require.NoError(t, c.Replace(books, "1"))
	price := func(size int) uint64 {
		var batch writes[*book]
		for _, b := range books[:size] {
			batch.Update(b)
		}
		c.Snapshot() // so that a write copies both
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, batch.to(c))
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	// Twice as many, because the batch grows in steps.
	few, more := price(largeCommit), price(2*largeCommit)
	assert.Less(t, more, 2*(few+few/2), "more edits than largeCommit")
}

func tagged(name string, tags ...string) *book { return &book{title: name, tags: tags} }
