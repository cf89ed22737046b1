package store

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// watching collects the resource versions of the states that a watch yields. It
// must run in a bubble.
type watching struct {
	mu    sync.Mutex
	seen  []string
	ended bool
}

func watchStates(c *Cache[*corev1.Pod], states func(func(*Snapshot[*corev1.Pod]) bool)) *watching {
	w := &watching{}
	go func() {
		for s := range states {
			w.mu.Lock()
			w.seen = append(w.seen, s.ResourceVersion())
			w.mu.Unlock()
		}
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
	}()
	return w
}

func (w *watching) states() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

func labelled(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func TestWatchesAreWokenByRelevantChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace([]*corev1.Pod{labelled(pod("n", "a", "u1", "1"), "x")}, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		key := watchStates(c, c.WatchKey(ctx, Key{Namespace: "n", Name: "a"}))
		namespace := watchStates(c, c.View.WatchNamespace(ctx, "n"))
		synctest.Wait()

		step := func(write error) { require.NoError(t, write); synctest.Wait() }
		step(c.Update(labelled(pod("n", "a", "u1", "2"), "x"))) // stays on x
		step(c.Add(labelled(pod("n", "b", "u2", "3"), "y")))
		step(c.Update(labelled(pod("n", "a", "u1", "4"), "y"))) // from x to y
		step(c.Add(labelled(pod("m", "a", "u3", "5"), "z")))
		step(c.Bookmark("6"))
		step(c.Delete(labelled(pod("n", "b", "u2", "7"), "z")))                      // leaves y: what was held counts
		step(c.Replace([]*corev1.Pod{labelled(pod("n", "a", "u1", "4"), "y")}, "9")) // a did not change

		assert.Equal(t, []string{"1", "2", "4"}, key.states())
		assert.Equal(t, []string{"1", "2", "3", "4", "7"}, namespace.states())
		cancel()
		synctest.Wait()
		for _, w := range []*watching{key, namespace} {
			assert.True(t, w.ended)
		}
		checkQuiet(t, c)
	})
}

func TestWatchYieldsTheFirstStateAtOnceAndEndsWithItsBody(t *testing.T) {
	c := newPods()
	n := 0
	for s := range c.WatchKey(t.Context(), Key{Name: "a"}) {
		assert.Zero(t, s.Len(), "also of a cache that is empty")
		n++
		break
	}
	assert.Equal(t, 1, n)
	checkQuiet(t, c)

	func() {
		defer func() { _ = recover() }()
		for range c.WatchNamespace(t.Context(), "a") {
			panic("body")
		}
	}()
	checkQuiet(t, c)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range c.WatchKey(ctx, Key{Name: "a"}) {
		t.Error("a state after the end")
	}
	checkQuiet(t, c)
}

func TestWatchCanBeIteratedAgain(t *testing.T) {
	c := newPods()
	states := c.WatchKey(t.Context(), Key{Name: "a"})
	for _, want := range []int{0, 1} {
		for s := range states {
			assert.Equal(t, want, s.Len())
			break
		}
		require.NoError(t, c.Add(pod("", "a", "u1", "1")))
	}
	checkQuiet(t, c)
}

func TestSlowWatchSeesTheLastStateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		require.NoError(t, c.Replace(nil, "1"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []string
		for s := range c.WatchKey(ctx, Key{Name: "a"}) {
			seen = append(seen, s.ResourceVersion())
			switch len(seen) {
			case 1: // while the body runs, much happens
				for version := range 10 {
					require.NoError(t, c.Update(pod("", "a", "u1", strconv.Itoa(version+2))))
				}
			case 2: // and now nothing that matters
				require.NoError(t, c.Update(pod("", "b", "u2", "20")))
				go func() {
					synctest.Wait()
					cancel()
				}()
			}
		}
		assert.Equal(t, []string{"1", "11"}, seen)
	})
}

func TestTwoWatchesOfOneTopicAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, endOne := context.WithCancel(t.Context())
		two, endTwo := context.WithCancel(t.Context())
		first, second := watchStates(c, c.WatchNamespace(one, "")), watchStates(c, c.WatchNamespace(two, ""))
		synctest.Wait()
		require.NoError(t, c.Add(pod("", "a", "u1", "1")))
		synctest.Wait()
		endOne()
		synctest.Wait()
		require.NoError(t, c.Add(pod("", "b", "u2", "2")))
		assert.Len(t, first.states(), 2)
		assert.Len(t, second.states(), 3)
		endTwo()
		synctest.Wait()
		checkQuiet(t, c)
	})
}

func TestWatchNeverMissesTheLastState(t *testing.T) {
	// Against a writer at full speed, each watch ends when it sees what the
	// writer wrote last: one that missed it would hang.
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	for round := range 200 {
		last := strconv.Itoa((round + 1) * 100)
		key := Key{Namespace: "n", Name: "a"}
		var all sync.WaitGroup
		until := func(states func(func(*Snapshot[*corev1.Pod]) bool)) {
			all.Go(func() {
				var previous uint64
				for s := range states {
					if s.generation <= previous {
						t.Errorf("state %d after %d", s.generation, previous)
					}
					previous = s.generation
					if p, ok := s.Get(key); ok && p.ResourceVersion == last {
						return
					}
				}
			})
		}
		until(c.WatchKey(t.Context(), key))
		until(c.WatchNamespace(t.Context(), "n"))
		all.Go(func() {
			for i := range 20 {
				version := strconv.Itoa(round*100 + i + 2)
				if i%3 == 0 {
					_ = c.Delete(pod("n", "a", "u", version))
				} else {
					_ = c.Update(labelled(pod("n", "a", "u", version), []string{"x", "y"}[i%2]))
				}
			}
			_ = c.Update(labelled(pod("n", "a", "u", last), "x"))
		})
		all.Wait()
	}
	checkQuiet(t, c)
}

func BenchmarkBatchWhileSomethingIsWatched(b *testing.B) {
	for _, watched := range []string{"nothing", "a key"} {
		b.Run(watched, func(b *testing.B) {
			c := newPods()
			_, err := AddIndex(c, "name", func(p *corev1.Pod) []string { return []string{p.Name} })
			require.NoError(b, err)
			var batches [2]writes[*corev1.Pod]
			for i := range 2000 {
				batches[i%2].Update(labelled(pod("n", strconv.Itoa(1000+i/2), "u", strconv.Itoa(1+i%2)), "x"))
			}
			var states func(func(*Snapshot[*corev1.Pod]) bool)
			switch watched {
			case "a key":
				states = c.WatchKey(b.Context(), Key{Name: "none"})
			default:
				states = func(yield func(*Snapshot[*corev1.Pod]) bool) { yield(nil) }
			}
			for range states {
				for i := 0; b.Loop(); i++ {
					_ = batches[i%2].to(c)
				}
				break
			}
		})
	}
}

// looking is a follower that looks at the state by a watch.
type looking struct {
	cache *podCache
	seen  []string
}

func (l *looking) Start(*Snapshot[*corev1.Pod]) {}

func (l *looking) Commit(commit *Commit[*corev1.Pod]) {
	for s := range l.cache.WatchKey(context.Background(), commit.Changes[0].Key) {
		l.seen = append(l.seen, s.ResourceVersion())
		break
	}
}

func TestFollowerMayReadByAWatch(t *testing.T) {
	c := openWith(t, "1")
	l := &looking{cache: c}
	c.Follow(l)
	require.NoError(t, c.Add(pod("n", "a", "u", "2")))
	assert.Equal(t, []string{"2"}, l.seen)
	checkQuiet(t, c)
}
