package eventqueue

import (
	"context"
	"sync"
	"testing"

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
	first, err := c.Take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"+2"}, words(collect(first)))
	assert.True(t, oldest(first).Initial)
	first.Done()
	c.Close()
	require.NoError(t, cache.Delete(at("a", "u", 3)))
	assert.Zero(t, c.Stats().Events, "a closed collection gets nothing more")
}
