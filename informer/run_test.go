package informer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestNothingIsCalledBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		var d diary
		sub := i.Handle(d.funcs())
		synctest.Wait()
		assert.Empty(t, d.read())
		assert.Equal(t, 1, sub.Lag())
		stop := start(t, i)
		<-sub.Synced()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1"}, d.read())
	})
}

func TestStopLetsHandlersFinishWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
			<-time.After(time.Second)
			return d.funcs().Handle(ctx, e)
		}))
		unread := i.Subscribe() // without a loop: it does not count
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1), pod("c", "u3", 1)}, "1"))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Len(t, d.read(), 3)
		assert.Equal(t, 3, unread.Lag())
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(time.Minute))
		for range 2 {
			i.Handle(HandlerFunc[*corev1.Pod](func(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
				<-ctx.Done()
				return ctx.Err()
			}))
		}
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		before := time.Now()
		err := stop()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(before))
	})
}

func TestWhatEndedLateIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(time.Minute))
		var ended atomic.Int32
		slow := func(err error) Handler[*corev1.Pod] {
			return HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
				<-ctx.Done()
				<-time.After(time.Second)
				ended.Add(1)
				return err
			})
		}
		i.Handle(slow(nil))
		i.Handle(slow(errors.New("no time")), WithName("hasty"))
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			return errors.New("for ever")
		}), WithName("failing"), WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		err := stop()
		assert.EqualValues(t, 2, ended.Load())
		lines := strings.Split(err.Error(), "\n")
		assert.ElementsMatch(t, []string{
			`subscriber hasty: 1 key(s) left undone (drain timeout: context deadline exceeded); "a": 1 event(s), failed: no time`,
			`subscriber failing: 1 key(s) left undone (drain timeout: context deadline exceeded); "a": 1 event(s), failed: for ever`,
		}, lines)
	})
}

func TestSecondRunDoesNotOverlapTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods(WithDrainTimeout(0))
		running := 0
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			running++
			assert.Equal(t, 1, running)
			<-time.After(time.Hour) // whatever its context says
			running--
			return nil
		}))
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1), pod("b", "u2", 1)}, "1"))
		stop := start(t, i)
		synctest.Wait()
		go func() { _ = stop() }()
		synctest.Wait()
		assert.ErrorIs(t, i.Run(t.Context()), ErrRunning, "a handler is still running")
		var late diary
		i.Handle(late.funcs())
		<-time.After(2 * time.Hour)
		assert.Empty(t, late.read(), "no worker is started any more")
		stop = start(t, i)
		<-time.After(2 * time.Hour)
		require.NoError(t, stop())
		assert.Len(t, late.read(), 2)
	})
}

func TestRunAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newPods()
		var d diary
		i.Handle(d.funcs())
		stop := start(t, i)
		require.NoError(t, i.cache.Replace([]*corev1.Pod{pod("a", "u1", 1)}, "1"))
		synctest.Wait()
		assert.ErrorIs(t, i.Run(t.Context()), ErrRunning)
		require.NoError(t, stop())
		require.NoError(t, i.cache.Update(pod("a", "u1", 2)))
		stop = start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"initial a@1", "update a@1>2"}, d.read())
	})
}
