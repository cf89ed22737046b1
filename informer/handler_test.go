package informer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestHandlersHearOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var early, late diary
		i.Handle(early.funcs())
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 2)}, "2"))
		synctest.Wait()
		require.NoError(t, i.cache.Update(pod("a", "u1", 3)))
		synctest.Wait()

		sub := i.Handle(late.funcs(), WithName("late"))
		<-sub.Synced()
		require.NoError(t, i.cache.Add(pod("c", "u3", 4)))
		require.NoError(t, i.cache.Delete(pod("a", "u1", 5)))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("c", "u3", 4)}, "6"))
		synctest.Wait()
		require.NoError(t, stop())

		assert.Equal(t, []string{"initial a@1", "initial b@2", "update a@1>3", "add c@4", "delete a@5", "missing b@2"}, early.read())
		assert.Equal(t, []string{"initial a@3", "initial b@2", "add c@4", "delete a@5", "missing b@2"}, late.read())
		assert.Equal(t, "late", sub.Name())
	})
}

func TestHandlersThatAreNilAreNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		sub := i.Handle(HandlerFuncs[*corev1.Pod]{})
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		require.NoError(t, i.cache.Delete(pod("a", "u1", 3)))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Zero(t, sub.Lag())
	})
}

func TestStalledSubscriberHoldsUpNobodyAndStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		release := make(chan struct{})
		var quick, slow, all diary
		i.Handle(quick.funcs())
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return slow.funcs().Handle(ctx, e)
		}))
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-release
			return all.funcs().Handle(ctx, e)
		}), WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
		stop := start(t, i)
		require.NoError(t, i.cache.Add(pod("a", "u1", 1)))
		synctest.Wait() // both are stalled on the addition
		for version := 2; version <= 100; version++ {
			require.NoError(t, i.cache.Update(pod("a", "u1", version)))
			synctest.Wait()
		}
		assert.Len(t, quick.read(), 100)
		close(release)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"add a@1", "update a@1>100"}, slow.read())
		assert.Len(t, all.read(), 100)
	})
}

func TestFailedEventComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		var d diary
		fails := 2
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			if e.Key.Name == "a" && fails > 0 {
				fails--
				return errors.New("not yet")
			}
			return d.funcs().Handle(ctx, e)
		}))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		synctest.Wait()
		assert.Equal(t, []string{"initial b@1"}, d.read(), "others go on")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial b@1", "initial a@1"}, d.read())
		require.Len(t, failures, 2)
		assert.EqualError(t, failures[1], `handling "a" failed (attempt 2): not yet`)
	})
}

func TestNilHandlerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		i.Handle(nil)
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		require.Len(t, failures, 1)
		assert.ErrorContains(t, failures[0], `handler panicked on "a"`)
		require.Error(t, stop())
	})
}

func TestErrorThatOnlyLooksLikeAClosedSubscriptionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		i := newPods(WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return eventqueue.ErrClosed // of another collection
		}))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.Len(t, failures, 1)
		require.Error(t, stop())
	})
}
