package await

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold await-A1, with partitions.

func TestCacheWaitsForEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, store.Scope{Namespace: "n1"}), partition(t, c, store.Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "1"))
		require.NoError(t, two.Replace(nil, "1"))
		done := make(chan error, 1)
		go func() { done <- Version(t.Context(), c, "5") }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("5"))
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.Bookmark("6"))
		require.NoError(t, <-done)

		object := pod("n2", "a", "u", "7")
		go func() { done <- Object(t.Context(), c, object) }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("9"))
		synctest.Wait()
		assert.Empty(t, done, "that partition has nothing to say about the object")
		require.NoError(t, two.Add(object))
		require.NoError(t, <-done)
		go func() { done <- Deletion(t.Context(), c, object) }()
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.DeleteKey(store.Key{Namespace: "n2", Name: "a"}))
		require.NoError(t, <-done)
	})
}

func TestWaitForGoesOnWithPartitionsThatAreMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "1"))
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		object := waiting(func() error { return Object(t.Context(), c, pod("n1", "a", "u", "5")) })
		gone := waiting(func() error { return Deletion(t.Context(), c, pod("n1", "a", "u", "5")) })
		nowhere := waiting(func() error { return Object(t.Context(), c, pod("n3", "a", "u", "5")) })
		one := partition(t, c, store.Scope{Namespace: "n1"})
		two := partition(t, c, store.Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "5"))
		require.ErrorIs(t, <-nowhere, store.ErrOutOfScope)
		require.NoError(t, <-object)
		require.NoError(t, <-gone)
		synctest.Wait()
		require.Empty(t, done, "another one came")
		require.NoError(t, two.Replace(nil, "6"))
		require.NoError(t, <-done)
		checkQuiet(t, c)

		done = waiting(func() error { return Version(t.Context(), c, "9") })
		require.NoError(t, c.Drop(store.Scope{}))
		require.ErrorIs(t, <-done, store.ErrOutOfScope)
		again := waiting(func() error { return Version(t.Context(), c, "9") })
		require.Empty(t, again)
		require.NoError(t, c.Replace(nil, "9"))
		require.NoError(t, <-again, "there are no partitions any more")
		checkQuiet(t, c)
	})
}

func TestWaitForObjectThatIsInNoPartitionFails(t *testing.T) {
	c := newPods() // whose KeyFunc knows no clusters
	west := partition(t, c, store.Scope{Cluster: "west"})
	object := pod("n", "a", "u", "5")
	require.NoError(t, west.Replace([]*corev1.Pod{object}, "5"))
	for _, wait := range []waitForObject{Object[*corev1.Pod], Deletion[*corev1.Pod]} {
		err := wait(t.Context(), c, object)
		require.ErrorIs(t, err, store.ErrOutOfScope)
		var waitError *Error
		require.ErrorAs(t, err, &waitError)
		assert.Equal(t, store.Key{Namespace: "n", Name: "a"}, waitError.Key)
		assert.Equal(t, "5", waitError.Wanted)
	}
	require.NoError(t, ObjectIn(t.Context(), c, "west", object))
	require.ErrorIs(t, ObjectIn(t.Context(), c, "east", object), store.ErrOutOfScope)
}

func TestWaitForObjectInAClusterOfACacheWithoutPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := pod("n", "a", "u", "5")
		c := openWith(t, "1") // its KeyFunc knows no clusters
		require.Error(t, reject(c.Cache, "b"))
		done := waiting(func() error { return ObjectIn(t.Context(), c, "west", object) })
		require.Empty(t, done)
		require.NoError(t, c.Add(object))
		require.Equal(t, "1", c.ResourceVersion(), "a rejected object holds it back")
		require.NoError(t, <-done)
		require.NoError(t, ObjectIn(t.Context(), c, "west", object))

		// The wait goes on with the partition of the cluster.
		later := pod("n", "a", "u", "6")
		done = waiting(func() error { return ObjectIn(t.Context(), c, "west", later) })
		west := partition(t, c, store.Scope{Cluster: "west"})
		synctest.Wait()
		require.Empty(t, done)
		require.NoError(t, west.Add(later))
		require.NoError(t, <-done)
		checkQuiet(t, c)
	})
}

func TestDropReleasesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, store.Scope{Namespace: "n1"}), partition(t, c, store.Scope{Namespace: "n2"})
		require.NoError(t, one.Replace([]*corev1.Pod{pod("n1", "a", "u", "1")}, "1"))
		require.NoError(t, two.Replace(nil, "9"))
		var all []<-chan error
		for _, wanted := range []string{"5", "6"} {
			all = append(all, waiting(func() error { return Version(t.Context(), c, wanted) }))
		}
		object := waiting(func() error { return Object(t.Context(), c, pod("n1", "a", "u", "5")) })
		gone := waiting(func() error { return Deletion(t.Context(), c, pod("n1", "a", "u", "1")) })
		ctx, cancel := context.WithCancel(t.Context())
		other := waiting(func() error { return Object(ctx, c, pod("n2", "a", "u", "10")) })

		require.NoError(t, c.Drop(store.Scope{Namespace: "n1"}))

		for _, done := range append(all, object) {
			err := <-done
			require.ErrorIs(t, err, store.ErrOutOfScope)
			var waitError *Error
			require.ErrorAs(t, err, &waitError)
			assert.Equal(t, "1", waitError.Reached)
		}
		require.NoError(t, <-gone, "the object is held no more")
		synctest.Wait()
		assert.Empty(t, other, "the others wait on")
		cancel()
		require.ErrorIs(t, <-other, context.Canceled)
		checkQuiet(t, c)
	})
}

func TestVersionFailsIfAnyPartitionBehindIsDroppedOrLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, store.Scope{Namespace: "n1"}), partition(t, c, store.Scope{Namespace: "n2"})
		three := partition(t, c, store.Scope{Namespace: "n3"})
		for i, p := range []*store.Partition[*corev1.Pod]{one, two, three} {
			require.NoError(t, p.Replace(nil, []string{"100", "101", "102"}[i]))
		}
		check := func(err, want error, reached string) {
			t.Helper()
			require.ErrorIs(t, err, want)
			var waitError *Error
			require.ErrorAs(t, err, &waitError)
			assert.Equal(t, reached, waitError.Reached)
		}

		ctx, cancel := context.WithCancel(t.Context())
		first := waiting(func() error { return Version(ctx, c, "120") })
		cancel()
		check(<-first, context.Canceled, "100")

		done := waiting(func() error { return Version(t.Context(), c, "120") })
		require.NoError(t, two.Replace(nil, "60"))
		check(<-done, errVersionLowered, "60")

		done = waiting(func() error { return Version(t.Context(), c, "120") })
		require.NoError(t, c.Drop(store.Scope{Namespace: "n3"}))
		check(<-done, store.ErrOutOfScope, "102")
		checkQuiet(t, c)
	})
}
