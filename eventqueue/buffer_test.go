package eventqueue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// synced returns a collection with an acknowledged object.
func synced(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	take(t, c).Done()
	return c
}

func TestWriterDoesNotWaitForWhoeverConsumes(t *testing.T) {
	c := synced(t)
	c.mu.Lock() // as a consumer does
	for i := range bufferSize {
		require.NoError(t, c.Update(at("a", "u", i+2)))
	}
	c.mu.Unlock()
	assert.Equal(t, bufferSize, take(t, c).Len())
}

// TestStalledHandlerLeavesFewEventsUnmerged has a handler that holds one object, while
// several objects change by turns.
func TestStalledHandlerLeavesFewEventsUnmerged(t *testing.T) {
	const most, objects = 64, 5 // as the package documentation says
	for _, perCommit := range []int{1, 3, most + 1} {
		t.Run(fmt.Sprint(perCommit), func(t *testing.T) {
			c := synced(t, WithCompaction(KeepLatest))
			require.NoError(t, c.Update(at("a", "u", 2)))
			defer take(t, c).Done()
			batch, _ := decorate.BeginWatch[*thing](c)
			for i := 0; i < 20*most; {
				for range perCommit {
					w := store.Write[*thing]{Type: store.Modification, Object: at(fmt.Sprint(i%objects), "u", i+3)}
					require.NoError(t, batch.Write(w))
					i++
				}
				require.NoError(t, batch.Commit(""))
				unmerged, all := unlooked(c)
				require.LessOrEqual(t, unmerged, most)
				require.LessOrEqual(t, all, most+objects+1)
			}
			assert.Equal(t, objects+1, c.Stats().Events)
		})
	}
}

func TestBufferIsInOrderWithWhatDoesNotFit(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	many := []*thing{at("a", "u", 3)}
	for i := range bufferSize {
		many = append(many, at(fmt.Sprint(i), "u", i+4))
	}
	require.NoError(t, c.Replace(many, "100"))
	require.NoError(t, c.Update(at("a", "u", 200)))
	assert.Equal(t, []string{"1>2", "2>3", "3>200"}, words(collect(take(t, c))))
}

func TestBurstLeavesLittleBehind(t *testing.T) {
	const collections = 100
	all := make([]*Collection[*thing], collections)
	for i := range all {
		all[i] = synced(t)
	}
	commits := commits(bufferSize)
	before := live()
	for _, c := range all {
		for _, commit := range commits {
			c.follower.Commit(commit)
		}
		n := 0
		for range c.Consume(t.Context()) {
			if n++; n == bufferSize {
				break
			}
		}
		take(t, c).Done()
		fallAsleep(t, c)
	}
	each := (live() - before) / collections
	t.Logf("%d bytes each", each)
	assert.Less(t, each, 9*kib)
	runtime.KeepAlive(all)
}

// TestNobodyWaitsForWhatIsThere has a writer that waits for each event to be handled, just
// as the handler begins to wait for the next one.
func TestNobodyWaitsForWhatIsThere(t *testing.T) {
	c := synced(t)
	all := commits(1)
	handled := make(chan bool)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for range c.Consume(ctx) {
			handled <- true
		}
	})
	for range 50_000 {
		c.follower.Commit(all[0])
		select {
		case <-handled:
		case <-time.After(time.Minute):
			t.Fatal("an event waits, and so does the handler")
		}
	}
	stop()
	running.Wait()
}

func TestEachEventInTheBufferHasItsOwnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := synced(t)
		defer c.Close()
		require.NoError(t, c.Update(at("a", "u", 2)))
		<-time.After(time.Hour)
		require.NoError(t, c.Add(at("b", "v", 3)))
		assert.Equal(t, time.Hour, c.Stats().Oldest)
		take(t, c).Done()
		assert.Zero(t, c.Stats().Oldest)
	})
}

func TestObjectThatChangesAllTheTimeIsNotKeptInManyStates(t *testing.T) {
	c := synced(t, WithCompaction(KeepLatest))
	for i := range 10 {
		require.NoError(t, c.Update(at("a", "u", i+2)))
		assert.LessOrEqual(t, bufferSize-c.buffer.room(), 1)
	}
}

// TestQueueThatIsHeldStaysAsItIs has loops over single events beside a consumer that keeps
// queues.
func TestQueueThatIsHeldStaysAsItIs(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	held := take(t, c)
	held.Done()
	for i := range 100 {
		require.NoError(t, c.Update(at(fmt.Sprint("b", i), "v", i+3)))
	}
	for range c.Consume(t.Context()) {
		if c.Len() == 1 {
			break
		}
	}
	require.NoError(t, c.Update(at("c", "w", 300)))
	assert.Equal(t, key("a"), held.Key())
	assert.Equal(t, []string{"1>2"}, words(collect(held)))
}

// TestCollectionsShareTheEventsOfACommit has two collections that share the events, and two with
// predicates, which do not.
func TestCollectionsShareTheEventsOfACommit(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	require.NoError(t, cache.Replace(nil, "1"))
	first, second, third := Follow(cache), Follow(cache), Follow(cache)
	defer first.Close()
	defer second.Close()
	defer third.Close()
	filtered := FollowFiltered(cache, func(o *thing) bool { return o.version != "2" })
	defer filtered.Close()
	second.KeepIf(func(Event[*thing]) bool { return true })
	require.NoError(t, cache.Add(at("a", "u", 2)))
	require.NoError(t, cache.Add(at("b", "v", 3)))
	assert.Same(t, first.buffer.ring[0], third.buffer.ring[0])
	assert.False(t, first.buffer.ring[0].record.keptApart)
	assert.True(t, second.buffer.ring[0].record.keptApart)
	require.NoError(t, cache.Update(at("a", "u", 4)))
	assert.Equal(t, []string{"+4"}, words(collect(take(t, first))))
	assert.Equal(t, []string{"+2", "2>4"}, words(collect(take(t, second))))
	assert.Equal(t, key("b"), take(t, filtered).Key())
	assert.Equal(t, []string{"+4"}, words(collect(take(t, filtered))))
}
