package reflector_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// What a network that drops packets, or a proxy that hangs, does to a request.
func TestWhatStallsForeverIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		fault reflectortest.Fault
		opts  []reflector.Option
		want  error
	}{
		"a watch":                   {reflectortest.StallAfterEvents(1, nil).On("watch", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.SilentWatch},
		"a watch after a stream":    {reflectortest.StallAfterEvents(3, nil).On("watch", ""), nil, protocol.SilentWatch},
		"a stream":                  {reflectortest.StallAfterEvents(1, nil).On("watch", ""), nil, protocol.NoInitialEventsEnd},
		"the beginning of a stream": {reflectortest.Stall(nil).On("watch", ""), nil, protocol.NoAnswer},
		"the beginning of a watch":  {reflectortest.Stall(nil).On("watch", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
		"a list":                    {reflectortest.StallAfterEvents(1, nil).On("list", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
		"the beginning of a list":   {reflectortest.Stall(nil).On("list", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				clientset, err := kubernetes.NewForConfig(server.Config())
				require.NoError(t, err)
				givesUp(t, server, clientset.CoreV1().ConfigMaps("default"), c.fault, c.want, c.opts)
			})
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "default")
				require.NoError(t, err)
				givesUp(t, server, resource, c.fault, c.want, c.opts)
			})
		})
	}
}

func givesUp[L any](t *testing.T, server *reflectortest.Server, api reflector.Client[*corev1.ConfigMap, L], fault reflectortest.Fault, want error, opts []reflector.Option) {
	for _, name := range []string{"a", "b"} {
		require.NoError(t, server.Create(paint(name, "red")))
	}
	server.Inject(fault.Times(1))
	var mu sync.Mutex
	var told error
	held := store.New(store.ObjectKey[*corev1.ConfigMap])
	r := reflector.New(api, held, append([]reflector.Option{reflector.WithErrorHandler(func(_ context.Context, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = errors.Join(told, err)
	})}, opts...)...)
	ctx, stop := context.WithTimeout(t.Context(), 14*time.Minute)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, r.Run(ctx)) })
	<-time.After(time.Minute)
	require.NoError(t, server.Create(paint("c", "red")))
	require.NoError(t, server.Create(paint("d", "red")))
	running.Wait()
	assert.Equal(t, 4, held.Len())
	assert.ErrorIs(t, told, want)
}
