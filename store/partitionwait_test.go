package store

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S8, with partitions.

func TestCacheWaitsForEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, Scope{Namespace: "n1"}), partition(t, c, Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "1"))
		require.NoError(t, two.Replace(nil, "1"))
		done := make(chan error, 1)
		go func() { done <- c.View.WaitFor(t.Context(), "5") }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("5"))
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.Bookmark("6"))
		require.NoError(t, <-done)

		object := pod("n2", "a", "u", "7")
		go func() { done <- c.View.WaitForObject(t.Context(), object) }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("9"))
		synctest.Wait()
		assert.Empty(t, done, "that partition has nothing to say about the object")
		require.NoError(t, two.Add(object))
		require.NoError(t, <-done)
		go func() { done <- c.View.WaitForDeletion(t.Context(), object) }()
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.DeleteKey(Key{Namespace: "n2", Name: "a"}))
		require.NoError(t, <-done)
	})
}

func TestWaitForGoesOnWithPartitionsThatAreMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "1"))
		done := waiting(func() error { return c.WaitFor(t.Context(), "5") })
		object := waiting(func() error { return c.WaitForObject(t.Context(), pod("n1", "a", "u", "5")) })
		gone := waiting(func() error { return c.WaitForDeletion(t.Context(), pod("n1", "a", "u", "5")) })
		nowhere := waiting(func() error { return c.WaitForObject(t.Context(), pod("n3", "a", "u", "5")) })
		one := partition(t, c, Scope{Namespace: "n1"})
		require.ErrorIs(t, <-nowhere, ErrOutOfScope)
		synctest.Wait()
		require.Empty(t, done)
		two := partition(t, c, Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "5"))
		require.NoError(t, <-object)
		require.NoError(t, <-gone)
		synctest.Wait()
		require.Empty(t, done, "another one came")
		require.NoError(t, two.Replace(nil, "6"))
		require.NoError(t, <-done)
		checkQuiet(t, c)

		done = waiting(func() error { return c.WaitFor(t.Context(), "9") })
		dropped(t, c, Scope{})
		require.ErrorIs(t, <-done, errDropped)
		again := waiting(func() error { return c.WaitFor(t.Context(), "9") })
		require.Empty(t, again)
		require.NoError(t, c.Replace(nil, "9"))
		require.NoError(t, <-again, "there are no partitions any more")
		checkQuiet(t, c)
	})
}

func TestWaitForObjectThatIsInNoPartitionFails(t *testing.T) {
	c := newPods() // whose KeyFunc knows no clusters
	west := partition(t, c, Scope{Cluster: "west"})
	object := pod("n", "a", "u", "5")
	require.NoError(t, west.Replace([]*corev1.Pod{object}, "5"))
	for _, wait := range []func(context.Context, *corev1.Pod) error{c.WaitForObject, c.WaitForDeletion} {
		err := wait(t.Context(), object)
		require.ErrorIs(t, err, ErrOutOfScope)
		var waitError *WaitError
		require.ErrorAs(t, err, &waitError)
		assert.Equal(t, Key{Namespace: "n", Name: "a"}, waitError.Key)
		assert.Equal(t, "5", waitError.Wanted)
	}
	require.NoError(t, c.View.WaitForObjectIn(t.Context(), "west", object))
	require.ErrorIs(t, c.View.WaitForObjectIn(t.Context(), "east", object), ErrOutOfScope)
}

func TestWaitForObjectInAClusterOfACacheWithoutPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := pod("n", "a", "u", "5")
		c := openWith(t, "1") // its KeyFunc knows no clusters
		require.Error(t, apply(c, Write[*corev1.Pod]{Key: Key{Name: "b"}, Err: errUndecodable}))
		done := waiting(func() error { return c.WaitForObjectIn(t.Context(), "west", object) })
		require.Empty(t, done)
		require.NoError(t, c.Add(object))
		require.Equal(t, "1", c.ResourceVersion(), "a rejected object holds it back")
		require.NoError(t, <-done)
		require.NoError(t, c.WaitForObjectIn(t.Context(), "west", object))

		// The wait goes on with the partition of the cluster.
		later := pod("n", "a", "u", "6")
		done = waiting(func() error { return c.WaitForObjectIn(t.Context(), "west", later) })
		west := partition(t, c, Scope{Cluster: "west"})
		synctest.Wait()
		require.Empty(t, done)
		require.NoError(t, west.Add(later))
		require.NoError(t, <-done)
		checkQuiet(t, c)
	})
}
