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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// synced returns a collection with an object that is told of.
func synced(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	take(t, c).Done()
	return c
}

func TestWriterDoesNotWaitForWhoeverConsumes(t *testing.T) {
	c := synced(t)
	c.mu.Lock() // as somebody who consumes does
	for i := range inboxSize {
		require.NoError(t, c.Update(at("a", "u", i+2)))
	}
	c.mu.Unlock()
	assert.Equal(t, inboxSize, take(t, c).Len())
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
			batch, _ := store.Begin[*thing](c, false)
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

func TestInboxIsInOrderWithWhatDoesNotFit(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	many := []*thing{at("a", "u", 3)}
	for i := range inboxSize {
		many = append(many, at(fmt.Sprint(i), "u", i+4))
	}
	require.NoError(t, c.Replace(many, "100"))
	require.NoError(t, c.Update(at("a", "u", 200)))
	assert.Equal(t, []string{"1>2", "2>3", "3>200"}, words(collect(take(t, c))))
}

func TestEventInTheInboxAgesLikeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := synced(t)
		defer c.Close()
		require.NoError(t, c.Update(at("a", "u", 2)))
		<-time.After(time.Hour)
		assert.Equal(t, time.Hour, c.Stats().Oldest)
	})
}

func TestEventInTheInboxDoesNotOutliveClose(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	c.Close()
	assert.Empty(t, c.inbox.events)
	assert.Zero(t, c.Stats())
	_, err := c.Take(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
}

func TestBurstLeavesLittleBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := synced(t)
		defer c.Close()
		for range 3 { // each of the two that take turns has to grow
			for i := range inboxSize {
				require.NoError(t, c.Update(at(fmt.Sprint(i), "u", i+2)))
			}
			assert.Len(t, c.inbox.events, inboxSize)
			assert.Equal(t, inboxSize, c.Stats().Waiting)
			n := 0
			for range c.Events(t.Context()) {
				if n++; n == inboxSize {
					break
				}
			}
			take(t, c).Done()
		}
		assert.GreaterOrEqual(t, cap(c.inbox.events), inboxSize)
		assert.GreaterOrEqual(t, c.unused.len, inboxSize/2)
		assert.GreaterOrEqual(t, c.spare.len, inboxSize/2)
		stop := processing(t, c, 1, accept)
		<-time.After(2 * idleAfter)
		synctest.Wait()
		assert.LessOrEqual(t, cap(c.inbox.events), inboxIdle)
		assert.LessOrEqual(t, cap(c.inbox.spare), inboxIdle)
		assert.LessOrEqual(t, c.unused.len, inboxIdle)
		assert.LessOrEqual(t, c.spare.len, 2*linesAtOnce)
		assert.Nil(t, c.tidy, "it is set again after the next burst")
		stop()
	})
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
		for range c.Events(ctx) {
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

func TestEachEventInTheInboxHasItsOwnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := synced(t)
		defer c.Close()
		require.NoError(t, c.Update(at("a", "u", 2)))
		<-time.After(time.Hour)
		require.NoError(t, c.Add(at("b", "v", 3)))
		take(t, c).Done()
		assert.Zero(t, c.Stats().Oldest)
	})
}

func TestObjectThatChangesAllTheTimeIsNotKeptInManyStates(t *testing.T) {
	c := synced(t, WithCompaction(KeepLatest))
	for i := range 10 {
		require.NoError(t, c.Update(at("a", "u", i+2)))
		assert.LessOrEqual(t, len(c.inbox.events), 1)
	}
}

func TestSyncedNeedsNobodyToLook(t *testing.T) {
	c := newThings(WithCompaction(KeepLatest))
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	require.NoError(t, c.Delete(at("a", "u", 2)))
	assert.True(t, isClosed(c.Synced()))
}

func TestDrainHearsOfWhatIsMergedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := synced(t, WithCompaction(KeepLatest))
		defer c.Close()
		require.NoError(t, c.Add(at("b", "v", 2)))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		ended, begin := make(chan error, 1), time.Now()
		go func() { ended <- c.Drain(ctx) }()
		synctest.Wait()
		require.NoError(t, c.Delete(at("b", "v", 3)))
		assert.NoError(t, <-ended)
		assert.Zero(t, time.Since(begin))
		assert.True(t, c.inbox.open, "nobody drains any more")
	})
}

// TestLoopOverEventsNeedsNoMemory counts what is allocated for events that come while
// others are handled.
func TestLoopOverEventsNeedsNoMemory(t *testing.T) {
	const rounds = 10_000
	c := synced(t)
	all := commits(100)
	c.follower.Commit(all[0])
	var before, after runtime.MemStats
	n := 0
	for range c.Events(t.Context()) {
		if n++; n == rounds/10 {
			runtime.ReadMemStats(&before)
		}
		if n == rounds {
			break
		}
		c.follower.Commit(all[n%len(all)])
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/(rounds*9/10), 0.1)
}

// TestQueueThatIsHeldStaysAsItIs has loops over single events beside somebody who keeps
// queues.
func TestQueueThatIsHeldStaysAsItIs(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	held := take(t, c)
	held.Done()
	for i := range 100 {
		require.NoError(t, c.Update(at(fmt.Sprint("b", i), "v", i+3)))
	}
	for range c.Events(t.Context()) {
		if c.Len() == 1 {
			break
		}
	}
	require.NoError(t, c.Update(at("c", "w", 300)))
	assert.Equal(t, key("a"), held.Key())
	assert.Equal(t, []string{"1>2"}, words(collect(held)))
}
