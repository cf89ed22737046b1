package await

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podCache knows the waits that follow it.
type podCache struct {
	*store.Cache[*corev1.Pod]
	mu        sync.Mutex // guards following
	following map[*waiter[*corev1.Pod]]bool
	reads     atomic.Int64 // calls of Get
	// beforeFollow runs between the first check of a wait and its Follow, if set.
	beforeFollow func()
}

func (c *podCache) Follow(follower store.Follower[*corev1.Pod]) func() {
	if c.beforeFollow != nil {
		c.beforeFollow()
	}
	w := follower.(*waiter[*corev1.Pod])
	stop := c.Cache.Follow(w)
	c.follows(w, true)
	return func() { stop(); c.follows(w, false) }
}

func (c *podCache) follows(w *waiter[*corev1.Pod], now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.following[w] = now; !now {
		delete(c.following, w)
	}
}

// waits returns the waits that follow the cache.
func (c *podCache) waits() []*waiter[*corev1.Pod] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.following))
}

func (c *podCache) Get(key store.Key) (*corev1.Pod, bool) {
	c.reads.Add(1)
	return c.Cache.Get(key)
}

func newPods() *podCache {
	return &podCache{
		Cache:     store.New(store.ObjectKey[*corev1.Pod]),
		following: make(map[*waiter[*corev1.Pod]]bool),
	}
}

// openWith returns a cache that was listed at a resource version.
func openWith(t *testing.T, resourceVersion string, objects ...*corev1.Pod) *podCache {
	t.Helper()
	c := newPods()
	require.NoError(t, c.Replace(objects, resourceVersion))
	return c
}

// waitsOf returns the number of waits for a cache.
func waitsOf(c *podCache) int { return len(c.waits()) }

// checkQuiet fails if a wait that ended still follows the cache.
func checkQuiet(t *testing.T, c *podCache) {
	t.Helper()
	require.Zero(t, waitsOf(c))
}

func pod(namespace, name, uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func partition(t *testing.T, c *podCache, scope store.Scope) *store.Partition[*corev1.Pod] {
	t.Helper()
	p, err := c.Partition(scope)
	require.NoError(t, err)
	return p
}

var errUndecodable = errors.New("undecodable")

// reject makes a cache reject an object under each name.
func reject(to *store.Cache[*corev1.Pod], names ...string) error {
	batch := to.BeginBatch(to, false)
	for _, name := range names {
		if err := batch.Write(store.Write[*corev1.Pod]{Key: store.Key{Name: name}, Err: errUndecodable}); err != nil {
			return err
		}
	}
	return batch.Commit("")
}

// waiting starts to wait and returns where the result will be. It must run in a bubble.
func waiting(wait func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	synctest.Wait()
	return done
}

type waitForObject = func(context.Context, Cache[*corev1.Pod], *corev1.Pod) error
