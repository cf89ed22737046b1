package store

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// manyPods returns a cache of n pods.
func manyPods(tb testing.TB, n int) *Cache[*corev1.Pod] {
	c := newPods()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod("n", strconv.Itoa(i), strconv.Itoa(i), "1")
	}
	require.NoError(tb, c.Replace(pods, "1"))
	return c
}

func TestResyncHandsEachObjectOnceBetweenTwoCommits(t *testing.T) {
	for _, n := range []int{0, 1, resyncChunk, resyncChunk + 1, 3*resyncChunk + 7} {
		c := manyPods(t, n)
		told := map[Key]int{}
		c.Resync(followerFunc(func(commit *Commit[*corev1.Pod]) {
			assert.False(t, c.writer.TryLock(), "another commit could come in between")
			assert.LessOrEqual(t, len(commit.Changes), resyncChunk)
			assert.True(t, commit.Synced)
			assert.Equal(t, "1", commit.ResourceVersion)
			for _, change := range commit.Changes {
				told[change.Key]++
				assert.Same(t, change.Prior, change.Object)
				assert.Equal(t, strconv.Itoa(told[change.Key]), change.Object.ResourceVersion)
			}
		}))
		assert.Len(t, told, n)
	}
}

func TestResyncTakesNoMoreMemoryForMoreObjects(t *testing.T) {
	bytes := func(n int) uint64 {
		c := manyPods(t, n)
		c.Snapshot()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.Resync(followerFunc(func(*Commit[*corev1.Pod]) {}))
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	assert.Less(t, bytes(20*resyncChunk), 2*bytes(resyncChunk)+64<<10)
}

func BenchmarkResync(b *testing.B) {
	c := manyPods(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		c.Resync(followerFunc(func(*Commit[*corev1.Pod]) {}))
	}
}
