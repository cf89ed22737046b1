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

func TestCloseWakesEveryoneAndRefusesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q := take(t, c)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				_, err := c.Take(t.Context())
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		synctest.Wait()
		c.Close()
		c.Close()
		waiting.Wait()
		for range c.Queues(t.Context()) {
			t.Error("a closed collection handed something out")
		}
		assert.ErrorIs(t, c.Add(at("b", "u", 2)), ErrClosed)
		q.Fail(errors.New("late"))
		assert.Zero(t, c.Len())
		assert.NoError(t, c.Drain(t.Context()))
	})
}

func TestCloseBetweenTwoEventsOfAQueue(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("a", "u", 2)))
	calls := 0
	err := take(t, c).Each(t.Context(), func(Event[*thing]) error {
		calls++
		c.Close()
		return nil
	})
	assert.ErrorIs(t, err, ErrClosed)
	assert.Equal(t, 1, calls)
}

func TestInvalidObjectsQueueNothing(t *testing.T) {
	c := newThings()
	assert.ErrorIs(t, c.Add(nil), store.ErrBadKey)
	assert.ErrorIs(t, c.Add(&thing{}), store.ErrBadKey)
	nothingReady(t, c)
}
