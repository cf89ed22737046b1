package eventqueue

import (
	"context"
	"errors"
	"fmt"
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

func TestDeletionOfAnUnknownObjectIsNoEvent(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Delete(at("a", "u", 1)))
	nothingReady(t, c)
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

func TestObjectDeletedAndRelistedIsNotLost(t *testing.T) {
	// The Java original lost the object, as client-go did before
	// kubernetes/kubernetes#83911.
	c := newThings()
	require.NoError(t, c.Add(at("a", "u1", 1)))
	take(t, c).Done()
	require.NoError(t, c.Delete(at("a", "u1", 2)))
	require.NoError(t, c.Replace([]*thing{at("a", "u2", 3)}, "3"))
	assert.Equal(t, []string{"-2(1)", "+3"}, words(collect(take(t, c))))
}

func TestRelistOfAnUnchangedObjectIsNoEvent(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
	take(t, c).Done()
	require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "2"))
	nothingReady(t, c)
}

func TestResyncWhileAQueueIsOutDoesNotBringBackOldState(t *testing.T) {
	// In the Java original the known objects went back to an older state, and
	// a deleted object rose again, if a resync ran while a queue was out.
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	take(t, c).Done()
	require.NoError(t, c.Update(at("a", "u", 2)))
	q := take(t, c)
	c.Resync()
	require.NoError(t, c.Delete(at("a", "u", 3)))
	c.Resync()
	q.Done()
	assert.Equal(t, []string{"-3(2)"}, words(collect(take(t, c))))
	assert.Zero(t, c.Cache().Len())
}

func TestResyncHandsOutWhatIsQuiet(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 1)}, "1"))
	take(t, c).Done()
	c.Resync()
	b := take(t, c)
	assert.Equal(t, []string{"+1"}, words(collect(b)), "b has an event waiting already")
	a := take(t, c)
	assert.Equal(t, []string{"1>1"}, words(collect(a)))
	assert.Equal(t, Resync, a.Oldest().Origin)
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

func TestFailuresAreForgottenAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		take(t, c).Fail(errors.New("no"))
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, q.Attempt())
		q.Done()
		require.NoError(t, c.Update(at("a", "u", 2)))
		assert.Equal(t, 1, take(t, c).Attempt())
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

func TestEachKeepsTheFailedEventAndTheLaterOnes(t *testing.T) {
	c := newThings()
	for i := range 4 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	q := take(t, c)
	err := q.Each(t.Context(), func(e Event[*thing]) error {
		if e.Object.version == "3" {
			return errors.New("no")
		}
		return nil
	})
	require.EqualError(t, err, "no")
	q.Fail(err)
	require.NoError(t, c.Update(at("a", "u", 5)))
	assert.Equal(t, []string{"2>3", "3>4", "4>5"}, words(collect(take(t, c))))
}

func TestSettlingByTheWayTheBodyEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		body   func(*Queue[*thing]) (goOn bool)
		comes  string // "again", "later" or "never"
		panics bool
	}{
		"end of the body":  {body: func(*Queue[*thing]) bool { return true }, comes: "never"},
		"break":            {body: func(*Queue[*thing]) bool { return false }, comes: "again"},
		"Done, then break": {body: func(q *Queue[*thing]) bool { q.Done(); return false }, comes: "never"},
		"Fail":             {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); return true }, comes: "later"},
		"Fail, then break": {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); return false }, comes: "later"},
		"panic":            {body: func(*Queue[*thing]) bool { panic("ouch") }, comes: "later", panics: true},
		"Done, then panic": {body: func(q *Queue[*thing]) bool { q.Done(); panic("ouch") }, comes: "never", panics: true},
		"Done, then Fail":  {body: func(q *Queue[*thing]) bool { q.Done(); q.Fail(errors.New("no")); return true }, comes: "never"},
		"Fail before Done": {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); q.Done(); return true }, comes: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				require.NoError(t, c.Add(at("a", "u", 1)))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				loop := func() {
					for q := range c.Queues(ctx) {
						cancel() // the loop ends after this body at the latest
						if !tc.body(q) {
							break
						}
					}
				}
				if tc.panics {
					assert.PanicsWithValue(t, "ouch", loop, "a panic goes on")
				} else {
					loop()
				}
				switch tc.comes {
				case "again":
					assert.Equal(t, 1, take(t, c).Attempt(), "not counted as a failure")
				case "later":
					nothingReady(t, c)
					q, err := c.Take(t.Context())
					require.NoError(t, err)
					assert.Equal(t, 2, q.Attempt())
				case "never":
					assert.Zero(t, c.Len())
				}
			})
		})
	}
}

func TestGoexitInABodyPutsTheQueueBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		var loop sync.WaitGroup
		loop.Go(func() {
			for range c.Queues(t.Context()) {
				exit()
			}
		})
		loop.Wait()
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, q.Attempt())
	})
}

func TestBreakPutsTheQueueBackInFront(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("b", "u", 2)))
	for range c.Queues(t.Context()) {
		require.NoError(t, c.Update(at("a", "u", 3))) // this alone would put it behind b
		break
	}
	assert.Equal(t, key("a"), take(t, c).Key())
}

func TestEventsSettleOneByOne(t *testing.T) {
	c := newThings()
	for i := range 4 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	var seen []Event[*thing]
	for e := range c.Events(t.Context()) {
		if seen = append(seen, e); len(seen) == 3 {
			break
		}
	}
	assert.Equal(t, []string{"+1", "1>2", "2>3"}, words(seen))
	assert.Equal(t, []string{"2>3", "3>4"}, words(collect(take(t, c))), "the event whose body broke comes again")
}

func TestEventsStopBetweenTwoEventsWhenTheContextEnds(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("a", "u", 2)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []Event[*thing]
	for e := range c.Events(ctx) {
		seen = append(seen, e)
		cancel()
	}
	assert.Equal(t, []string{"+1"}, words(seen))
	assert.Equal(t, []string{"1>2"}, words(collect(take(t, c))))
}

func TestSeveralGoroutinesShareOneSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		ctx, cancel := context.WithCancel(t.Context())
		queues := c.Queues(ctx)
		var mu sync.Mutex
		seen := map[store.Key]int{}
		var loops sync.WaitGroup
		for range 4 {
			loops.Go(func() {
				for q := range queues {
					mu.Lock()
					seen[q.Key()]++
					mu.Unlock()
				}
			})
		}
		for i := range 100 {
			require.NoError(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		}
		synctest.Wait()
		cancel()
		loops.Wait()
		assert.Len(t, seen, 100)
		for k, n := range seen {
			assert.Equal(t, 1, n, k)
		}
	})
}

func TestOneCommitWakesAsManyAsItHasWorkFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
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

func TestSynced(t *testing.T) {
	t.Run("an empty list", func(t *testing.T) {
		c := newThings()
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, c.Replace(nil, "1"))
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("only after the last object is settled", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 1), at("a", "u1", 1)}, "1"))
		a, b := take(t, c), take(t, c)
		a.Done()
		assert.False(t, isClosed(c.Synced()), "handing out is not enough")
		b.Fail(errors.New("for ever"))
		assert.True(t, isClosed(c.Synced()), "a failure does not hold it up")
	})
	t.Run("objects that are deleted first", func(t *testing.T) {
		c := newThings(WithCompaction(KeepLatest))
		require.NoError(t, c.Add(at("a", "u1", 1)))
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		nothingReady(t, c)
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("events before the first list", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		take(t, c).Done()
		require.NoError(t, c.Add(at("b", "u2", 2)))
		b := take(t, c)
		require.NoError(t, c.Add(at("c", "u3", 3)))
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2), at("c", "u3", 3)}, "3"))
		assert.False(t, isClosed(c.Synced()), "b is out and c waits")
		b.Done()
		assert.False(t, isClosed(c.Synced()))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("objects that were deleted before the list do not count", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		take(t, c).Done()
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		require.NoError(t, c.Replace(nil, "3"))
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("break settles nothing", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		for range c.Queues(t.Context()) {
			break
		}
		assert.False(t, isClosed(c.Synced()))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a late follower", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1)}, "1"))
		c := Follow(cache)
		assert.False(t, isClosed(c.Synced()))
		q := take(t, c)
		assert.True(t, q.Oldest().Initial)
		q.Done()
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a follower of a cache that waits for its list", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		require.NoError(t, cache.Add(at("a", "u1", 1)))
		c := Follow(cache)
		take(t, c).Done()
		assert.False(t, isClosed(c.Synced()))
		require.NoError(t, cache.Replace([]*thing{at("a", "u1", 1), at("b", "u2", 2)}, "2"))
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()))
	})
}

func TestFollowingCollectionCannotBeWrittenTo(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	c := Follow(cache)
	assert.ErrorIs(t, c.Add(at("a", "u", 1)), ErrReadOnly)
	assert.ErrorIs(t, c.Replace(nil, "1"), ErrReadOnly)
	require.NoError(t, cache.Add(at("a", "u", 1)))
	assert.Equal(t, key("a"), take(t, c).Key())
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

func TestClosedFollowerLeavesTheCache(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	c := Follow(cache)
	c.Close()
	require.NoError(t, cache.Add(at("a", "u", 1)))
	assert.Zero(t, c.Len())
}

func TestInvalidObjectsQueueNothing(t *testing.T) {
	c := newThings()
	assert.ErrorIs(t, c.Add(nil), store.ErrNilObject)
	assert.ErrorIs(t, c.Add(&thing{}), store.ErrNoName)
	nothingReady(t, c)
}

func TestEventAsText(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	assert.Equal(t, "Addition of a (Watch)", take(t, c).Oldest().String())
}
