package informer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func TestSubscriberWhoseQueueTakesTooMuchIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		i := New(client.CoreV1().Pods("default"), WithName("pods"))
		release := make(chan struct{})
		stalled := HandlerFunc[*corev1.Pod](func(ctx context.Context, _ eventqueue.Event[*corev1.Pod]) error {
			<-release
			return nil
		})
		var mu sync.Mutex
		var told []error
		hook := WithErrorHook(func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		})
		const limit = 200_000
		all := i.Handle(stalled, WithName("all"), WithCompaction(eventqueue.KeepAll), WithQueueLimit(limit), hook)
		latest := i.Handle(stalled, WithName("latest"), WithQueueLimit(limit), hook)
		unlimited := i.Handle(stalled, WithName("unlimited"), WithCompaction(eventqueue.KeepAll), hook)
		stop := start(t, i)
		<-time.After(2 * limitPeriod)
		require.NoError(t, all.Err())
		for n := range 100 {
			require.NoError(t, server.Update(onNode("a", fmt.Sprint(n, strings.Repeat("x", 10_000)))))
		}
		synctest.Wait()
		assert.Greater(t, all.Bytes(), int64(limit))
		assert.Less(t, latest.Bytes(), int64(limit))
		<-time.After(2 * limitPeriod)

		var ended *QueueLimitError
		require.ErrorAs(t, all.Err(), &ended)
		assert.Equal(t, "all", ended.Subscription)
		assert.Equal(t, "pods", ended.Informer)
		assert.Equal(t, 1, ended.Objects)
		assert.EqualValues(t, limit, ended.Limit)
		assert.Greater(t, ended.Bytes, ended.Limit)
		mu.Lock()
		require.Len(t, told, 1)
		assert.Same(t, ended, errorAs[*QueueLimitError](told[0]))
		mu.Unlock()
		assert.Zero(t, all.Bytes(), "its memory is free")
		assert.Len(t, i.Subscriptions(), 2)
		require.NoError(t, latest.Err())
		require.NoError(t, unlimited.Err())
		assert.Greater(t, unlimited.Bytes(), int64(limit))
		close(release)
		<-all.Done()
		require.NoError(t, stop())
	})
}

func errorAs[E error](err error) E {
	e, _ := errors.AsType[E](err)
	return e
}
