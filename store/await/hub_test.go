package await

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
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
		cancel()
		for _, done := range all[2:] {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		synctest.Wait()
		checkQuiet(t, c)
	})
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
		for c.checks.Load() < 3*waits {
			runtime.Gosched()
		}
		for i := range waits {
			_ = c.Add(pod("", strconv.Itoa(i), "u", strconv.Itoa(2+i)))
		}
		all.Wait()
	}
}
