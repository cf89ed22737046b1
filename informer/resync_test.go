package informer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestOnlyThoseWhoAskedAreResyncedEachAtItsOwnPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var none, negative, minute, hour, floor diary
		i.Handle(none.funcs())
		i.Handle(negative.funcs(), WithResync(-time.Second))
		i.Handle(minute.funcs(), WithResync(time.Minute))
		i.Handle(hour.funcs(), WithResync(time.Hour))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(150 * time.Second)
		i.Handle(floor.funcs(), WithResync(time.Nanosecond)) // while it runs
		<-time.After(3500 * time.Millisecond)
		require.NoError(t, stop())

		assert.Equal(t, []string{"initial a@1"}, none.read())
		assert.Equal(t, []string{"initial a@1"}, negative.read())
		assert.Equal(t, []string{"initial a@1", "update a@1>1", "update a@1>1"}, minute.read())
		assert.Equal(t, []string{"initial a@1"}, hour.read())
		assert.Equal(t, []string{"initial a@1", "update a@1>1", "update a@1>1", "update a@1>1"}, floor.read())
	})
}

func TestResyncIsMarkedAndNeverBringsBackWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		stop := start(t, i)
		sub := i.Subscribe(WithResync(time.Minute))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		var seen []eventqueue.Event[*corev1.Pod]
		require.NoError(t, i.cache.Delete(pod("b", "u2", 2)))
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, sub.Stats().Events, "a's addition, and b's deletion: a resync adds nothing to what waits")
		for e := range sub.Events(t.Context()) {
			seen = append(seen, e)
			if e.Type == eventqueue.Modification {
				sub.Close()
			}
		}
		require.Len(t, seen, 3)
		assert.Equal(t, "Modification of a (Resync)", seen[2].String())
		require.NoError(t, stop())
	})
}

func TestResyncEndsWithTheSubscriptionAndWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var closed, idle diary
		sub := i.Handle(closed.funcs(), WithResync(time.Minute))
		i.Handle(idle.funcs(), WithResync(time.Minute))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(time.Hour)
		assert.Empty(t, idle.read(), "the time runs while Run does")
		stop := start(t, i)
		<-time.After(90 * time.Second)
		sub.Close()
		<-time.After(time.Minute)
		require.NoError(t, stop())
		<-time.After(time.Hour)
		assert.Len(t, closed.read(), 2)
		assert.Len(t, idle.read(), 3)

		stop = start(t, i)
		<-time.After(90 * time.Second)
		require.NoError(t, stop())
		assert.Len(t, idle.read(), 4)
	})
}

func TestSlowSubscriberIsNotBuriedByResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		calls := 0
		sub := i.Handle(HandlerFuncs[*corev1.Pod]{
			OnAdd:    func(*corev1.Pod, bool) { calls++; <-time.After(time.Hour - time.Second/4) },
			OnUpdate: func(_, _ *corev1.Pod) { calls++ },
		}, WithResync(time.Second))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		<-time.After(time.Hour - time.Second/2)
		synctest.Wait()
		assert.Equal(t, 1, calls)
		assert.Equal(t, 1, sub.Stats().Events)
		<-time.After(time.Second)
		require.NoError(t, stop())
		assert.Equal(t, 2, calls)
	})
}
