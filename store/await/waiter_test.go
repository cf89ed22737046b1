package await

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestCommitChecksOnlyTheWaitsThatItConcerns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, store.Scope{Namespace: "n1"}), partition(t, c, store.Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "1"))
		require.NoError(t, two.Replace(nil, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan error
		for i := range 20 {
			object := pod("n1", strconv.Itoa(i), "u", strconv.Itoa(100+i))
			all = append(all, waiting(func() error { return Object(ctx, c, object) }))
		}
		c.reads.Store(0)
		require.NoError(t, one.Update(pod("n1", "other", "u", "99")))
		require.NoError(t, two.Update(pod("n2", "0", "u", "500")))
		require.Zero(t, c.reads.Load())
		require.NoError(t, one.Update(pod("n1", "7", "u", "99")))
		require.EqualValues(t, 1, c.reads.Load(), "the wait for that key")
		require.NoError(t, one.Bookmark("101"))
		require.EqualValues(t, 3, c.reads.Load(), "the waits for 100 and 101")
		require.NoError(t, <-all[0])
		require.NoError(t, <-all[1])
		synctest.Wait()
		require.Equal(t, 18, waitsOf(c))

		gone := waiting(func() error { return Deletion(ctx, c, pod("n1", "other", "u", "100")) })
		c.reads.Store(0)
		require.NoError(t, one.Bookmark("101"))
		require.NoError(t, one.Update(pod("n1", "third", "u", "101")))
		require.Zero(t, c.reads.Load(), "the version of the object was reached before, and it has not changed")
		require.NoError(t, one.Delete(pod("n1", "other", "u", "101")))
		require.NoError(t, <-gone)
		cancel()
		for _, done := range all[2:] {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		synctest.Wait()
		checkQuiet(t, c)
	})
}

func TestWaitThatIsOverIgnoresCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, "3")
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		w := c.waits()[0]
		require.NoError(t, c.Bookmark("5"))
		require.NoError(t, <-done)
		for range 2 { // it had no room for both
			w.Commit(&store.Commit[*corev1.Pod]{Origin: store.List, ResourceVersion: "6", ObservedVersion: "6"})
		}
		assert.Empty(t, w.ended)
	})
}

// A condition that becomes true as ctx ends is true.
func TestEndOfTheContextHidesNoResult(t *testing.T) {
	for range 50 { // a select draws lots
		c := openWith(t, "3")
		ctx, cancel := context.WithCancel(t.Context())
		c.beforeFollow = func() {
			cancel()
			require.NoError(t, c.Bookmark("5"))
		}
		require.NoError(t, Version(ctx, c, "5"))
	}
}

// A wait is not checked on every commit, but it notices each lowering.
func TestLoweringAfterCommitsThatCheckedNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, "100")
		done := waiting(func() error { return Version(t.Context(), c, "120") })
		require.NoError(t, c.Bookmark("110"))
		require.NoError(t, c.Replace(nil, "105"))
		require.ErrorIs(t, <-done, errVersionLowered)
		checkQuiet(t, c)
	})
}

// TestCommitMissesNoWait: after any history whose last step is a commit, a check of every wait ends none.
func TestCommitMissesNoWait(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c, version := newPods(), 10
			namespaces := [2]string{"n0", "n1"}
			var parts [2]*store.Partition[*corev1.Pod]
			partitioned := r.IntN(2) == 0
			if !partitioned {
				require.NoError(t, c.Replace(nil, "10"))
			}
			ctx, cancel := context.WithCancel(t.Context())
			object := func(version int) *corev1.Pod {
				return pod(namespaces[r.IntN(2)], strconv.Itoa(r.IntN(2)), strconv.Itoa(r.IntN(2)), strconv.Itoa(version))
			}
			for range 40 {
				version += r.IntN(3)
				n := r.IntN(2)
				if partitioned && parts[n] == nil {
					parts[n] = partition(t, c, store.Scope{Namespace: namespaces[n]})
				}
				var into store.BatchStore[*corev1.Pod] = c.Cache
				one := object(version)
				if partitioned {
					into, one.Namespace = parts[n], namespaces[n]
				}
				switch r.IntN(12) {
				case 0, 1:
					_ = into.Update(one)
				case 2:
					_ = into.Delete(one)
				case 3:
					_ = into.Bookmark(strconv.Itoa(version))
				case 4:
					if r.IntN(2) == 0 {
						version -= r.IntN(8)
					}
					_ = into.Replace([]*corev1.Pod{one}, strconv.Itoa(version))
				case 5:
					batch := into.BeginBatch(into, false)
					_ = batch.Write(store.Write[*corev1.Pod]{Key: store.Key{Namespace: one.Namespace, Name: one.Name}, Err: errUndecodable})
					_ = batch.Commit(strconv.Itoa(version))
				case 6:
					_ = into.DeleteKey(store.Key{Namespace: one.Namespace, Name: one.Name})
				case 7:
					if r.IntN(3) == 0 {
						require.NoError(t, c.Drop(store.Scope{Namespace: namespaces[n]}))
						parts[n] = nil
					}
				default:
					later, wait := object(version+r.IntN(8)), r.IntN(3)
					go func() {
						switch wait {
						case 0:
							_ = Version(ctx, c, later.ResourceVersion)
						case 1:
							_ = Object(ctx, c, later)
						case 2:
							_ = Deletion(ctx, c, later)
						}
					}()
				}
				synctest.Wait()
			}
			version++
			if !partitioned {
				_ = c.Bookmark(strconv.Itoa(version))
			}
			for _, p := range parts {
				if p != nil {
					_ = p.Bookmark(strconv.Itoa(version))
				}
			}
			synctest.Wait()
			waits := waitsOf(c)
			for _, w := range c.waits() {
				w.checkAgain()
			}
			synctest.Wait()
			require.Equal(t, waits, waitsOf(c), "seed %d", seed)
			cancel()
			synctest.Wait()
			checkQuiet(t, c)
		})
	}
}

// checked counts the calls of Partitions, which each check makes.
type checked struct {
	*store.Cache[*corev1.Pod]
	checks atomic.Int64
}

func (c *checked) Partitions() []*store.Partition[*corev1.Pod] {
	c.checks.Add(1)
	return c.Cache.Partitions()
}

func BenchmarkCommitsWithWaits(b *testing.B) {
	const waits = 10_000
	for b.Loop() {
		c := &checked{Cache: store.New(store.ObjectKey[*corev1.Pod])}
		_ = c.Replace(nil, "1")
		var all sync.WaitGroup
		for i := range waits {
			all.Go(func() { _ = Object(b.Context(), c, pod("", strconv.Itoa(i), "u", strconv.Itoa(2+i))) })
		}
		for c.checks.Load() < 2*waits {
			runtime.Gosched()
		}
		for i := range waits {
			_ = c.Add(pod("", strconv.Itoa(i), "u", strconv.Itoa(2+i)))
		}
		all.Wait()
	}
}

// These tests hold await-A1, with partitions.

func TestCacheWaitsForEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, store.Scope{Namespace: "n1"}), partition(t, c, store.Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "1"))
		require.NoError(t, two.Replace(nil, "1"))
		done := waiting(func() error { return Version(t.Context(), c, "5") })
		require.NoError(t, one.Bookmark("5"))
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.Bookmark("6"))
		require.NoError(t, <-done)

		object := pod("n2", "a", "u", "7")
		done = waiting(func() error { return Object(t.Context(), c, object) })
		require.NoError(t, one.Bookmark("9"))
		synctest.Wait()
		assert.Empty(t, done, "that partition has nothing to say about the object")
		require.NoError(t, two.Add(object))
		require.NoError(t, <-done)
		done = waiting(func() error { return Deletion(t.Context(), c, object) })
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
