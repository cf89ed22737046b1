package eventqueue

import (
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manyThings returns a cache of n objects.
func manyThings(tb testing.TB, n int) *store.Cache[*thing] {
	cache := store.New(store.ObjectKey[*thing])
	things := make([]*thing, n)
	for i := range things {
		things[i] = at(strconv.Itoa(i), "u"+strconv.Itoa(i), 1)
	}
	require.NoError(tb, cache.Replace(things, "1"))
	return cache
}

// counting is a follower that counts commits.
type counting struct{ commits int }

func (*counting) Start(*store.Snapshot[*thing])  {}
func (f *counting) Commit(*store.Commit[*thing]) { f.commits++ }

func TestResyncReachesOneCollectionAndChangesNothing(t *testing.T) {
	for _, n := range []int{0, 1, 1024, 1025, 3*1024 + 7} {
		cache := manyThings(t, n)
		var other counting
		defer cache.Follow(&other)()
		c := Follow(cache)
		defer c.Close()
		for range n {
			take(t, c).Done()
		}
		c.Resync()
		told := map[store.Key]int{}
		for range n {
			q := take(t, c)
			event := q.Newest()
			assert.Equal(t, Resync, event.Origin)
			assert.Equal(t, Modification, event.Type)
			assert.Same(t, event.Prior, event.Object)
			assert.False(t, event.Initial)
			told[q.Key()]++
			q.Done()
		}
		assert.Len(t, told, n)
		assert.Zero(t, c.Len())
		assert.Zero(t, other.commits)
		assert.Equal(t, "1", cache.ResourceVersion())
	}
}

// A large state comes in several commits, and no other commit comes between them.
func TestNoCommitComesBetweenTheCommitsOfAResync(t *testing.T) {
	const n = 3*1024 + 7
	cache := manyThings(t, n)
	c := Follow(cache)
	defer c.Close()
	wrote := make(chan error, 1)
	var origins []Origin
	c.KeepIf(func(e Event[*thing]) bool {
		if origins = append(origins, e.Origin); len(origins) == 1 {
			go func() { wrote <- cache.Update(at("0", "u0", 2)) }()
		}
		return false
	})
	c.Resync()
	require.NoError(t, <-wrote)
	require.Len(t, origins, n+1)
	for i, origin := range origins {
		require.Equal(t, i < n, origin == Resync)
	}
}

func BenchmarkResync(b *testing.B) {
	c := Follow(manyThings(b, 100_000))
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		c.Resync()
	}
}
