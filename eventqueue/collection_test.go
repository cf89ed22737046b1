package eventqueue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueuesComeInTheOrderOfTheirFirstEvent(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u1", 1)))
	require.NoError(t, c.Add(at("b", "u2", 2)))
	require.NoError(t, c.Update(at("a", "u1", 3)))
	first, second := take(t, c), take(t, c)
	assert.Equal(t, key("a"), first.Key())
	assert.Equal(t, []string{"+1", "1>3"}, words(collect(first)))
	assert.Equal(t, key("b"), second.Key())
}

func TestOneQueueOfAKeyIsOutAtATime(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u1", 1)))
	q := take(t, c)
	require.NoError(t, c.Update(at("a", "u1", 2)))
	require.NoError(t, c.Add(at("b", "u2", 3)))

	b := take(t, c)
	assert.Equal(t, key("b"), b.Key(), "the key that is out is passed over")
	nothingReady(t, c)
	assert.Equal(t, []string{"+1"}, words(collect(q)), "a queue never changes")

	q.Done()
	assert.Equal(t, []string{"1>2"}, words(collect(take(t, c))))
}

func TestKeyKeepsItsPlaceWhileItIsOut(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u1", 1)))
	q := take(t, c)
	require.NoError(t, c.Update(at("a", "u1", 2)))
	require.NoError(t, c.Add(at("b", "u2", 3)))
	q.Done()
	assert.Equal(t, key("a"), take(t, c).Key(), "a's event came before b's")
}

func TestDeletionFoundByARelist(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Replace(nil, "5"))
	events := collect(take(t, c))
	assert.Equal(t, []string{"+1", "-1(1)"}, words(events))
	assert.False(t, events[1].FinalStateKnown)
	assert.Equal(t, List, events[1].Origin)
	require.NoError(t, c.Add(at("b", "u", 6)))
	require.NoError(t, c.Delete(at("b", "u", 7)))
	events = collect(take(t, c))
	assert.True(t, events[1].FinalStateKnown)
}

func TestRelistOfAnUnchangedObjectIsNoEvent(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
	take(t, c).Done()
	require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "2"))
	nothingReady(t, c)
}

func TestFailedQueueComesBackAfterABackoffThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithBackoff(time.Second, 10*time.Second))
		require.NoError(t, c.Add(at("a", "u", 1)))
		var waits []time.Duration
		failedAt := time.Now()
		for q := range c.Queues(t.Context()) {
			waits = append(waits, time.Since(failedAt))
			assert.Equal(t, len(waits), q.Attempt())
			if len(waits) == 7 {
				break
			}
			q.Fail(errors.New("no"))
			failedAt = time.Now()
		}
		for i, most := range []time.Duration{0, 1, 2, 4, 8, 10, 10} {
			most *= time.Second
			assert.GreaterOrEqual(t, waits[i], most/2, "attempt %d", i+1)
			assert.LessOrEqual(t, waits[i], most, "attempt %d", i+1)
		}
	})
}

func TestNewsEndTheBackoff(t *testing.T) {
	c := newThings(WithBackoff(time.Hour, time.Hour))
	require.NoError(t, c.Add(at("a", "u", 1)))
	take(t, c).Fail(errors.New("no"))
	c.Resync()
	nothingReady(t, c)
	require.NoError(t, c.Update(at("a", "u", 2)))
	q := take(t, c)
	assert.Equal(t, []string{"+1", "1>2"}, words(collect(q)))
	assert.Equal(t, 2, q.Attempt())
}

func TestFailedEventsAreMergedInOrderWithNewOnes(t *testing.T) {
	// The Java original dropped the failed events if newer ones were there.
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	q := take(t, c)
	require.NoError(t, c.Update(at("a", "u", 2)))
	q.Fail(errors.New("no"))
	releaseAll(c)
	assert.Equal(t, []string{"+1", "1>2"}, words(collect(take(t, c))))
}

func TestOneCommitWakesAsManyAsItHasWorkFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithPriority(true))
		var taken sync.WaitGroup
		for range 3 {
			taken.Go(func() {
				_, err := c.Take(t.Context())
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		require.NoError(t, c.Replace([]*thing{at("a", "u", 1), at("b", "v", 1), at("c", "w", 1)}, "1"))
		taken.Wait()
	})
}

func TestSettlingWakesWhoeverWaitsForTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q := take(t, c)
		var taken sync.WaitGroup
		taken.Go(func() {
			_, err := c.Take(t.Context())
			assert.NoError(t, err)
		})
		require.NoError(t, c.Update(at("a", "u", 2)))
		synctest.Wait() // the token of the update has been used up in vain
		q.Done()
		taken.Wait()
	})
}

// slowDone is a context whose Done channel loses every race against a token.
type slowDone struct {
	context.Context
	ended atomic.Bool
}

func (c *slowDone) Done() <-chan struct{} { return nil }

func (c *slowDone) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestConsumerThatEndsHandsItsTokenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		ending := &slowDone{Context: t.Context()}
		var takers sync.WaitGroup
		takers.Go(func() { _, _ = c.Take(ending) })
		synctest.Wait() // it is the first in line for the token
		takers.Go(func() {
			_, err := c.Take(t.Context())
			assert.NoError(t, err)
		})
		synctest.Wait()
		ending.ended.Store(true)
		require.NoError(t, c.Add(at("a", "u", 1)))
		takers.Wait()
	})
}

func TestInvalidObjectsQueueNothing(t *testing.T) {
	c := newThings()
	assert.ErrorIs(t, c.Add(nil), store.ErrBadKey)
	assert.ErrorIs(t, c.Add(&thing{}), store.ErrBadKey)
	nothingReady(t, c)
}

// While a queue was being handled, a resync or a relist saw the state before it:
// objects went back to an older state, rose again, or were never removed.
func TestResyncAndRelistWhileAQueueIsInFlight(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1), at("b", "v", 1)}, "1"))
	take(t, c).Done()
	take(t, c).Done()

	require.NoError(t, c.Update(at("a", "u", 2)))
	q := take(t, c)
	c.Resync()
	held, _ := c.Cache().Get(key("a"))
	assert.Equal(t, "2", held.version, "the state does not go back")
	q.Done()
	take(t, c).Done() // b, by the resync

	require.NoError(t, c.Delete(at("a", "u", 3)))
	q = take(t, c)
	c.Resync()
	q.Done()
	assert.Equal(t, key("b"), take(t, c).Key(), "what is deleted does not rise again")
	nothingReady(t, c)

	require.NoError(t, c.Add(at("c", "w", 4)))
	q = take(t, c)
	require.NoError(t, c.Replace([]*thing{at("b", "v", 1)}, "5"))
	q.Done()
	assert.Equal(t, []string{"-4(4)"}, words(collect(take(t, c))), "what a relist misses while it is handled is removed")
}

// An object that was deleted and created again before its deletion was handled stayed
// unknown, if a relist brought the news. client-go had it too
// (kubernetes/kubernetes#83911).
func TestRecreationFoundByARelist(t *testing.T) {
	for _, uid := range []string{"u", "v", ""} {
		for _, policy := range []Compaction{KeepAll, KeepLatest} {
			c := newThings(WithCompaction(policy))
			require.NoError(t, c.Add(at("a", "u", 1)))
			take(t, c).Done()
			require.NoError(t, c.Delete(at("a", "u", 2)))
			require.NoError(t, c.Replace([]*thing{at("a", uid, 3)}, "3"))
			assert.Equal(t, "3", take(t, c).Newest().Object.version)
		}
	}
}

// A relist looked like a resync, so that those who wanted none missed even additions.
func TestRelistIsNotAResync(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	take(t, c).Done()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 2), at("b", "v", 2)}, "2"))
	a, b := oldest(take(t, c)), oldest(take(t, c))
	assert.Equal(t, []Origin{List, List}, []Origin{a.Origin, b.Origin})
	assert.Equal(t, []Type{Modification, Addition}, []Type{a.Type, b.Type})
}

// Two deletions in a row were both delivered.
func TestDeletionIsDeliveredOnce(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	take(t, c).Done()
	require.NoError(t, c.Delete(at("a", "u", 2)))
	require.NoError(t, c.Delete(at("a", "u", 2)))
	require.NoError(t, c.DeleteKey(key("a")))
	require.NoError(t, c.Replace(nil, "3"))
	assert.Equal(t, []string{"-2(1)"}, words(collect(take(t, c))))
	nothingReady(t, c)
}

// The deletion of an unknown object was delivered, and no deletion carried
// the prior object.
func TestDeletionOfAnUnknownObjectIsNoEvent(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Delete(at("a", "u", 1)))
	require.NoError(t, c.DeleteKey(key("b")))
	nothingReady(t, c)
	require.NoError(t, c.Add(at("a", "u", 2)))
	take(t, c).Done()
	require.NoError(t, c.Delete(at("a", "u", 3)))
	deletion := oldest(take(t, c))
	assert.True(t, deletion.PriorKnown)
	assert.Equal(t, "2", deletion.Prior.version)
}

// Keys came from two functions, of which one could be replaced: each relist then
// deleted everything.
func TestRelistAndEventsHaveTheSameKeys(t *testing.T) {
	c := New(func(s string) (store.Key, error) { return store.Key{Namespace: "own", Name: s[:1]}, nil })
	require.NoError(t, c.Replace([]string{"a1", "b1"}, "1"))
	for range 2 {
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "own", q.Key().Namespace)
		assert.Equal(t, q.Key(), oldest(q).Key)
		assert.Equal(t, Addition, oldest(q).Type)
		q.Done()
	}
	require.NoError(t, c.Replace([]string{"a2", "b2"}, "2"))
	q, err := c.Take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Modification, oldest(q).Type)
	assert.Equal(t, 1, q.Len())
}

// Locks were taken in both orders. Here a consumer that writes, reads and resyncs from
// its handler meets a writer, a resync and a close.
func TestHandlersWriteWhileWritersResync(t *testing.T) {
	c := newThings()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			c.Process(t.Context(), 2, func(_ context.Context, q *Queue[*thing]) error {
				c.Cache().Get(q.Key())
				c.Resync()
				c.Stats()
				return c.DeleteKey(q.Key())
			}, nil)
		})
	}
	for i := range 300 {
		require.NoError(t, c.Add(at(string(rune('a'+i%5)), "u", i+1)))
		c.Resync()
	}
	c.Close()
	all.Wait()
}

// A late consumer received none of the existing objects.
func TestLateConsumerReceivesTheState(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	require.NoError(t, cache.Replace([]*thing{at("a", "u", 1)}, "1"))
	require.NoError(t, cache.Update(at("a", "u", 2)))
	c := Follow(cache)
	first, err := c.Take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"+2"}, words(collect(first)))
	assert.True(t, oldest(first).Initial)
	first.Done()
	c.Close()
	require.NoError(t, cache.Delete(at("a", "u", 3)))
	assert.Zero(t, c.Stats().Events, "a closed collection gets nothing more")
}
