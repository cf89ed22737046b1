package informer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestLogHasALineForEachChangeOfStateAndNoneForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		core, logs := observer.New(zap.InfoLevel)
		own, ownLogs := observer.New(zap.InfoLevel)
		i := newServed(t, server, WithName("pods"), WithLogger(zap.New(core)))
		var fail atomic.Bool
		handle := HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			if fail.CompareAndSwap(true, false) {
				return errors.New("not now")
			}
			return nil
		})
		i.Handle(handle, WithName("worker"))
		var failOwn atomic.Bool
		i.Handle(HandlerFunc[*corev1.Pod](func(context.Context, eventqueue.Event[*corev1.Pod]) error {
			if failOwn.CompareAndSwap(true, false) {
				panic("ouch")
			}
			return nil
		}), WithName("own"), WithLogger(zap.New(own)))
		stop := start(t, i)
		<-time.After(time.Minute)
		lines := func() (said []string) {
			for _, entry := range logs.TakeAll() {
				fields := entry.ContextMap()
				assert.Equal(t, "pods", fields["informer"], entry.Message)
				assert.NotEmpty(t, fields["resourceVersion"], entry.Message)
				line := entry.Level.String() + " " + entry.Message
				if key, ok := fields["key"]; ok {
					line += " " + fmt.Sprint(key, " at ", fields["resourceVersion"])
				}
				said = append(said, line)
			}
			return said
		}
		assert.Equal(t, []string{"info synced"}, lines())

		for n := range 1000 {
			require.NoError(t, server.Create(onNode(fmt.Sprint("pod-", n), "n")))
		}
		<-time.After(time.Hour) // in which watches end in the ordinary way
		assert.Empty(t, lines(), "events and watches that are renewed are no news")

		server.Inject(reflectortest.Answer(500).On("watch", ""))
		server.Inject(reflectortest.Answer(500).On("list", ""))
		require.NoError(t, server.Restore(server.ResourceVersion())) // which ends the watch
		<-time.After(5 * time.Second)
		broken := lines()
		require.NotEmpty(t, broken)
		for _, line := range broken {
			assert.Equal(t, "warn reflecting failed", line)
		}
		server.ClearFaults()
		<-time.After(10 * time.Minute)
		again := lines()
		require.NotEmpty(t, again)
		assert.Equal(t, "info well again", again[len(again)-1])
		for _, line := range again[:len(again)-1] {
			assert.Equal(t, "warn reflecting failed", line)
		}

		fail.Store(true)
		failOwn.Store(true)
		require.NoError(t, server.Create(onNode("b", "n")))
		<-time.After(time.Minute)
		assert.Equal(t, []string{fmt.Sprintf("error handler failed default/b at %d", server.ResourceVersion())}, lines())
		require.Equal(t, 1, ownLogs.Len())
		fields := ownLogs.All()[0].ContextMap()
		assert.Equal(t, "pods", fields["informer"])
		assert.Equal(t, "own", fields["subscriber"])
		assert.Equal(t, "default/b", fields["key"])
		assert.Equal(t, fmt.Sprint(server.ResourceVersion()), fields["resourceVersion"])
		require.NoError(t, stop())
		assert.Empty(t, lines())
	})
}
