//go:build !race

package eventqueue

import (
	"context"
	"runtime"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

// These tests count allocations. Under the race detector, a sync.Pool drops some of what it gets.

func TestObserverCostsNoMemory(t *testing.T) {
	cost := func(opts ...Option) float64 {
		c := newThings(append(opts, WithCompaction(KeepLatest))...)
		defer c.Close()
		all := commits(1)
		return testing.AllocsPerRun(1000, func() {
			c.follower.Commit(all[0])
			q, _ := c.Take(context.Background())
			q.Done()
		})
	}
	assert.Equal(t, cost(), cost(WithObserver(func(TakeInfo) {})))
}

// TestLoopOverEventsNeedsNoMemory counts the allocations for events that come while others are
// handled. The commit of each event allocates the event that all collections share.
func TestLoopOverEventsNeedsNoMemory(t *testing.T) {
	const rounds = 10_000
	c := synced(t)
	all := commits(100)
	c.follower.Commit(all[0])
	var before, after runtime.MemStats
	n := 0
	for range c.Consume(t.Context()) {
		if n++; n == rounds/10 {
			runtime.ReadMemStats(&before)
		}
		if n == rounds {
			break
		}
		all[n%len(all)].Shared = nil
		c.follower.Commit(all[n%len(all)])
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/(rounds*9/10), 1.1)
}

func TestCommonCaseIsOneAllocation(t *testing.T) {
	c := newThings()
	all := commits(100)
	i := 0
	each := testing.AllocsPerRun(1000, func() {
		c.follower.Commit(all[i%len(all)])
		q, _ := c.Take(t.Context())
		for e := range q.Events() {
			_ = e.Object
		}
		q.Done()
		i++
	})
	assert.LessOrEqual(t, each, 1.0, "the queue that is handed out")
}

func TestFilterAddsNoAllocation(t *testing.T) {
	measure := func(c func(*store.Cache[*thing]) *Collection[*thing]) float64 {
		cache := store.New(store.ObjectKey[*thing])
		queues := c(cache)
		states := []*thing{at("a", "u", 2), at("a", "u", 4)}
		i := 0
		return testing.AllocsPerRun(200, func() {
			i++
			_ = cache.Update(states[i%2])
			q, _ := tryTake(queues)
			q.Done()
		})
	}
	plain := measure(func(cache *store.Cache[*thing]) *Collection[*thing] { return Follow(cache) })
	withFilter := measure(func(cache *store.Cache[*thing]) *Collection[*thing] { return FollowFiltered(cache, even) })
	assert.LessOrEqual(t, withFilter, plain)
}
