package store

import (
	"fmt"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The regression tests reach the package through these functions.

type podCache = Cache[*corev1.Pod]

// openWith returns a cache that was listed at a resource version.
func openWith(t *testing.T, resourceVersion string, objects ...*corev1.Pod) *podCache {
	t.Helper()
	c := newPods()
	require.NoError(t, c.Replace(objects, resourceVersion))
	return c
}

// apply makes writes one commit.
func apply(to Store[*corev1.Pod], writes ...Write[*corev1.Pod]) error {
	var batch Batch[*corev1.Pod]
	for _, w := range writes {
		batch.Append(w)
	}
	return Batches(to).Apply(&batch)
}

func adding(object *corev1.Pod) Write[*corev1.Pod] {
	return Write[*corev1.Pod]{Type: WriteAdd, Object: object}
}

func deleting(object *corev1.Pod) Write[*corev1.Pod] {
	return Write[*corev1.Pod]{Type: WriteDelete, Object: object}
}

// nameless returns an object that every cache rejects.
func nameless(resourceVersion string) *corev1.Pod { return pod("n", "", "nameless", resourceVersion) }

// dropShard drops a shard of everything.
func dropShard(c *podCache, shard Shard) error {
	return c.Drop(Scope{Shard: shard})
}

// observed returns the observed resource versions of the commits that a follower got.
func observed(r *recorder) (all []string) {
	for _, commit := range r.commits {
		all = append(all, commit.Seen)
	}
	return all
}

// uidIn returns a UID of a shard.
func uidIn(shard Shard, n int) string {
	for i := 0; ; i++ {
		if uid := fmt.Sprintf("%d-%d", n, i); shard.Contains(ShardHash(uid)) {
			return uid
		}
	}
}

// indexed adds an index by fn, and returns a function that counts the values the index knows.
func indexed(t *testing.T, c *podCache, fn func(*corev1.Pod) []string) (values func() int) {
	t.Helper()
	index, err := AddIndex(c, "index", fn)
	require.NoError(t, err)
	return func() int { return len(index.vocabulary.terms) }
}

// snapshots counts the snapshots that were made of a cache.
func snapshots[T any](c *Cache[T]) uint64 { return c.epoch }

// displacedIn returns how many keys a shard knows to be taken by objects of other shards.
func displacedIn(p *Partition[*corev1.Pod]) int { return len(p.displaced) }

// limited returns a cache with a budget, and the bytes of all lists that are under way.
func limited(t *testing.T, limit int64) (c *podCache, gathered func() int64) {
	t.Helper()
	c, b := budgeted(t, limit)
	return c, func() int64 { return b.fresh + b.same }
}

// list gives objects to a new stage, until it ends the list.
func list(to Store[*corev1.Pod], objects ...*corev1.Pod) (Stage[*corev1.Pod], error) {
	stage := StageOf(to)
	for _, object := range objects {
		if err := stage.Put(object, Identity{}); err != nil {
			return stage, err
		}
	}
	return stage, nil
}

// complete commits a stage.
func complete(stage Stage[*corev1.Pod], resourceVersion string) error {
	return stage.Commit(Listing[*corev1.Pod]{ResourceVersion: resourceVersion})
}

// inGoroutine waits for a function that may end its goroutine.
func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// followAndStop adds a last follower and removes it. The pointer does not keep the follower.
func followAndStop(c *podCache) weak.Pointer[recorder] {
	r := new(recorder)
	stop := c.Follow(r)
	stop()
	return weak.Make(r)
}
