package eventqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		assert.True(t, isClosed(c.Synced()))
	})
	t.Run("a list with duplicates and a rejected object", func(t *testing.T) {
		c := newThings(WithCompaction(KeepLatest))
		require.NoError(t, c.Add(at("a", "u1", 1)))
		b := at("b", "u2", 1)
		require.ErrorIs(t, c.Replace([]*thing{at("a", "u1", 1), b, b, nil}, "1"), store.ErrBadKey)
		require.NoError(t, c.Delete(at("a", "u1", 2)))
		take(t, c).Done()
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
		assert.True(t, oldest(q).Initial)
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
	t.Run("a key that failed before the last partition was listed", func(t *testing.T) {
		cache := store.New(store.ObjectKey[*thing])
		a, err := cache.Partition(store.Scope{Cluster: "a"})
		require.NoError(t, err)
		b, err := cache.Partition(store.Scope{Cluster: "b"})
		require.NoError(t, err)
		c := Follow(cache, WithBackoff(time.Hour, time.Hour))
		defer c.Close()
		require.NoError(t, a.Replace([]*thing{at("x", "u1", 1)}, "1"))
		take(t, c).Fail(errNo)
		require.NoError(t, b.Replace([]*thing{at("y", "u2", 1)}, "1"))
		assert.False(t, isClosed(c.Synced()), "y waits")
		take(t, c).Done()
		assert.True(t, isClosed(c.Synced()), "x was handed out and failed")
		releaseAll(c)
		take(t, c).Done()
	})
	t.Run("a key that is out while the list arrives", func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u1", 1)))
		a := take(t, c)
		require.NoError(t, c.Replace([]*thing{at("a", "u1", 1)}, "1"))
		assert.False(t, isClosed(c.Synced()), "nothing else is left")
		a.Done()
		assert.True(t, isClosed(c.Synced()))
	})
}
