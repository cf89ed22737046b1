package eventqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests below are named after the defects of the Java original that this package
// must not have. Those of its reflector and its distributor are the business of the
// packages reflector and informer.

// While a queue was being handled, a resync or a relist saw the state before it:
// objects went back to an older state, rose again, or were never removed.
func TestDefect01InFlightWindow(t *testing.T) {
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
func TestDefect02RecreationLostInARelist(t *testing.T) {
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

// An object of which nothing had been handled yet got no deletion when a relist missed
// it (kubernetes/kubernetes#115658).
func TestDefect03GhostOnARelist(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Replace(nil, "2"))
	assert.Equal(t, Deletion, take(t, c).Newest().Type)
	assert.Zero(t, c.Cache().Len())
}

// A relist looked like a resync, so that those who wanted none missed even additions.
func TestDefect04RelistIsNotAResync(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	take(t, c).Done()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 2), at("b", "v", 2)}, "2"))
	a, b := oldest(take(t, c)), oldest(take(t, c))
	assert.Equal(t, []Origin{List, List}, []Origin{a.Origin, b.Origin})
	assert.Equal(t, []Type{Modification, Addition}, []Type{a.Type, b.Type})
}

// Two deletions in a row were both delivered.
func TestDefect05DeletionDeliveredTwice(t *testing.T) {
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
func TestDefect06DeletionOfTheUnknown(t *testing.T) {
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
func TestDefect07TwoKeyFunctions(t *testing.T) {
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

// An exception dropped the rest of a queue, a deletion at its end included.
func TestDefect08FailureDropsTheRestOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		require.NoError(t, c.Update(at("a", "u", 2)))
		require.NoError(t, c.Delete(at("a", "u", 3)))
		var seen []Event[*thing]
		failed := false
		stop := processing(t, c, 1, func(ctx context.Context, q *Queue[*thing]) error {
			return q.Each(ctx, func(e Event[*thing]) error {
				if e.Object.version == "2" && !failed {
					failed = true
					panic("ouch")
				}
				seen = append(seen, e)
				return nil
			})
		})
		<-time.After(time.Minute)
		stop()
		assert.Equal(t, []string{"+1", "1>2", "-3(2)"}, words(seen))
	})
}

// A relist of an object that was known failed an assertion, because it said that it was
// an addition.
func TestDefect09RelistOfAKnownObject(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	take(t, c).Done()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 2)}, "2"))
	assert.Equal(t, []string{"1>2"}, words(collect(take(t, c))))
}

// It was synchronised when the last queue of the first list had been taken, and not
// handled yet.
func TestDefect10SyncedBeforeTheLastIsHandled(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	q := take(t, c)
	assert.False(t, isClosed(c.Synced()))
	q.Done()
	assert.True(t, isClosed(c.Synced()))
}

// Objects that were listed twice, or that compaction removed, left it unsynchronised
// for ever.
func TestDefect11NeverSynced(t *testing.T) {
	c := newThings(WithCompaction(KeepLatest))
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.ErrorIs(t, c.Replace([]*thing{at("a", "u", 1), at("b", "v", 1), at("b", "v", 1), nil}, "1"), store.ErrBadKey)
	require.NoError(t, c.Delete(at("a", "u", 2)))
	take(t, c).Done()
	assert.True(t, isClosed(c.Synced()))
}

// Something that came before the first list made it look synchronised, and those who
// waited for that waited for ever.
func TestDefect12EventBeforeTheFirstList(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	take(t, c).Done()
	assert.False(t, isClosed(c.Synced()))
	require.NoError(t, c.Replace([]*thing{at("a", "u", 1)}, "1"))
	assert.True(t, isClosed(c.Synced()))
}

// A handler that failed once was never called again, for any object.
func TestDefect20FailureEndsConsumption(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errNo },
		"panic":  func() error { panic("ouch") },
		"Goexit": func() error { exit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				handled := 0
				stop := processing(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
					if q.Key().Name == "bad" {
						return fail()
					}
					handled++
					return nil
				})
				require.NoError(t, c.Add(at("bad", "u", 1)))
				synctest.Wait()
				require.NoError(t, c.Add(at("good", "u", 2)))
				synctest.Wait()
				stop()
				c.Close()
				assert.Equal(t, 1, handled)
			})
		})
	}
}

// What failed was retried without a pause, thousands of times a second, and was lost if
// there was news of the object.
func TestDefect21RetryWithoutBackoffLosesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		calls := 0
		var last []string
		stop := processing(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
			calls++
			last = words(collect(q))
			return errNo
		})
		<-time.After(200 * time.Millisecond)
		synctest.Wait()
		assert.Less(t, calls, 5)
		require.NoError(t, c.Update(at("a", "u", 2)))
		synctest.Wait()
		stop()
		c.Close()
		assert.Equal(t, []string{"+1", "1>2"}, last)
	})
}

// Closing did not wake those who waited for a queue, what was added afterwards piled
// up, and a second consumer was ignored without a word.
func TestDefect22Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		var consumers sync.WaitGroup
		var mu sync.Mutex
		handled := map[int]int{}
		release := make(chan struct{})
		for i := range 2 {
			consumers.Go(func() {
				for range c.Queues(t.Context()) {
					mu.Lock()
					handled[i]++
					mu.Unlock()
					<-release
				}
			})
		}
		require.NoError(t, c.Add(at("a", "u", 1)))
		require.NoError(t, c.Add(at("b", "u", 2)))
		synctest.Wait()
		assert.Equal(t, map[int]int{0: 1, 1: 1}, handled, "both consume")
		close(release)
		synctest.Wait()
		c.Close()
		consumers.Wait()
		assert.ErrorIs(t, c.Add(at("c", "u", 3)), ErrClosed)
		_, err := c.Take(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
		assert.Zero(t, c.Stats().Events)
	})
}

// A compaction worked on the queue itself: what it returned was empty once the queue
// was refilled, and emptying a queue broke the walk that a relist was on.
func TestDefect23CompactionOnTheQueueItself(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Replace(nil, "1")) // nothing is Initial
	c.KeepIf(func(Event[*thing]) bool { return false })
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Update(at("a", "u", 2)))
	require.NoError(t, c.Add(at("b", "v", 2)))
	require.NoError(t, c.Replace([]*thing{at("c", "w", 3)}, "3"))
	q := take(t, c)
	assert.Equal(t, key("c"), q.Key(), "a and b came and went")
	assert.Equal(t, 1, q.Len())
	nothingReady(t, c)
}

// Locks were taken in both orders. Here a consumer that writes, reads and resyncs from
// its handler meets a writer, a resync and a close.
func TestDefect24LockOrder(t *testing.T) {
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
func TestDefect27LateConsumer(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	require.NoError(t, cache.Replace([]*thing{at("a", "u", 1)}, "1"))
	require.NoError(t, cache.Update(at("a", "u", 2)))
	c := Follow(cache)
	first := take(t, c)
	assert.Equal(t, []string{"+2"}, words(collect(first)))
	assert.True(t, oldest(first).Initial)
	first.Done()
	c.Close()
	require.NoError(t, cache.Delete(at("a", "u", 3)))
	assert.True(t, errors.Is(c.Drain(t.Context()), nil), "who left is told of nothing more")
	assert.Zero(t, c.Stats().Events)
}
