package informer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestSubscribersComeAndGoAsRunDoes has subscribers join and leave an informer that
// is started and stopped meanwhile, kubernetes/kubernetes#59822 among others.
func TestSubscribersComeAndGoAsRunDoes(t *testing.T) {
	i := newPods()
	require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
	stay := i.Handle(HandlerFuncs[*corev1.Pod]{})
	var subscribers, writer sync.WaitGroup
	for range 8 {
		subscribers.Go(func() {
			for range 50 {
				calls, both := map[string]int{}, make(chan struct{})
				sub := i.Handle(HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
					calls[e.Key.Name]++
					assert.Equal(t, calls[e.Key.Name] == 1, e.Type == eventqueue.Addition, "%v", e)
					if len(calls) == 2 && !isDone(both) {
						close(both)
					}
					return nil
				}))
				<-both
				sub.Close()
				<-sub.Done()
				assert.Len(t, calls, 2, "both, in however many runs")
			}
		})
	}
	ended := make(chan struct{})
	writer.Go(func() {
		for version := 2; !isDone(ended); version++ {
			assert.NoError(t, i.cache.Update(pod("a", "u1", version)))
		}
	})
	var runs sync.WaitGroup
	runs.Go(func() {
		for !isDone(ended) {
			ctx, cancel := context.WithCancel(t.Context())
			var stopping sync.WaitGroup
			stopping.Go(cancel)
			assert.NoError(t, i.Run(ctx))
			stopping.Wait()
		}
	})
	subscribers.Wait()
	close(ended)
	writer.Wait()
	runs.Wait()
	stay.Close()
	assert.Empty(t, i.subscriptions)
}

func TestSubscriptionOutlivesRunAndCanBeClosedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		late := i.Handle(d.funcs()) // of an informer that has stopped
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.Empty(t, d.read())
		stop = start(t, i)
		<-late.Synced()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1"}, d.read())
		assert.False(t, isDone(late.Done()))

		var closing sync.WaitGroup
		for range 4 {
			closing.Go(late.Close)
		}
		closing.Wait()
		assert.True(t, isDone(late.Done()), "nothing runs")
		for range late.Events(t.Context()) {
			t.Error("an event of a closed subscription")
		}
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		assert.Zero(t, late.Lag())
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Len(t, d.read(), 1)
	})
}

func TestHandlerMaySubscribeAndCloseOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var inner, victim diary
		other := i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			victim.write("%v", e)
			return nil
		}))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnAdd: func(p *corev1.Pod, _ bool) {
			if p.Name == "a" {
				i.Handle(inner.funcs())
				other.Close()
				<-other.Done()
			}
		}})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		before := len(victim.read())
		require.NoError(t, i.cache.Add(pod("b", "u2", 2)))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "add b@2"}, inner.read())
		assert.Len(t, victim.read(), before)
	})
}

func TestWhatIsDoneWhileOthersDrainIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var mu sync.Mutex
		calls := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				return errors.New("not now")
			}
			return nil
		}), WithName("A"), WithQueue(eventqueue.WithBackoff(2*time.Second, 2*time.Second)))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			<-time.After(5 * time.Second)
			return nil
		}), WithName("B"))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(500 * time.Millisecond)
		err := stop()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 2, calls)
		assert.NoError(t, err)
		for _, s := range i.subscriptions {
			assert.Zero(t, s.Lag())
		}
	})
}

func TestSubscribersComeAndGoWhileTheCacheChanges(t *testing.T) {
	i := newPods()
	stop := start(t, i)
	require.NoError(t, i.cache.Replace(nil, "1"))
	var writer, subscribers sync.WaitGroup
	writer.Go(func() {
		for v := range 2000 {
			name := strconv.Itoa(v % 7)
			if v%3 == 2 {
				_ = i.cache.Delete(pod(name, "u", v+2))
			} else {
				_ = i.cache.Add(pod(name, "u", v+2))
			}
		}
	})
	for range 20 {
		subscribers.Go(func() {
			state := map[string]*corev1.Pod{}
			sub := i.Handle(HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
				known := state[e.Key.Name]
				assert.Equal(t, known != nil, e.PriorKnown, "%v", e)
				assert.Same(t, known, e.Prior, "%v", e)
				state[e.Key.Name] = e.Object
				if e.Type == eventqueue.Deletion {
					delete(state, e.Key.Name)
				}
				return nil
			}))
			<-sub.Synced()
			writer.Wait()
			assert.NoError(t, sub.queues.Drain(t.Context()))
			sub.Close()
			<-sub.Done()
			assert.Equal(t, i.cache.Len(), len(state))
			for key, p := range i.cache.All() {
				assert.Same(t, p, state[key.Name])
			}
		})
	}
	subscribers.Wait()
	require.NoError(t, stop())
}
