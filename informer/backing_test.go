package informer

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// leaving is a store whose Run ends the goroutine, as a test's FailNow does.
type leaving struct {
	store.BatchStore[*corev1.Pod]
	cache *store.Cache[*corev1.Pod]
}

func (l leaving) Cache() *store.Cache[*corev1.Pod] { return l.cache }

func (l leaving) Partition(scope store.Scope) (store.BatchStore[*corev1.Pod], error) {
	return l.cache.Partition(scope)
}

func (l leaving) Run(context.Context) error {
	runtime.Goexit()
	return nil
}

func TestStoreThatEndsItsGoroutineEndsTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		cache := store.New(store.ObjectKey[*corev1.Pod])
		i := New(client.CoreV1().Pods(""), WithStore(leaving{cache, cache}))
		require.ErrorIs(t, i.Run(t.Context()), ErrBackingEnded)
	})
}
