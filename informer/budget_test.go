package informer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// State, log and error handler report a rejected object, and the cache stores it when
// there is room.
func TestInformerSaysThatItsCacheIsOverItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, server.Create(onNode(name, strings.Repeat("n", 30))))
		}
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		var mu sync.Mutex
		var failed error
		i := New(client.CoreV1().Pods("default"), WithErrorHandler(func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}))
		budget, err := store.AddBudget(i.Cache(), 70, func(p *corev1.Pod) int64 { return int64(len(p.Spec.NodeName)) })
		require.NoError(t, err)
		stop := start(t, i)
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		assert.EqualValues(t, 60, budget.Bytes())
		assert.Empty(t, i.Cache().ResourceVersion(), "it is not complete")
		mu.Lock()
		require.ErrorIs(t, failed, store.ErrOverBudget)
		mu.Unlock()
		require.ErrorIs(t, i.State().Err, store.ErrOverBudget)
		assert.ErrorContains(t, i.State().Err, "70 are allowed")
		var asked *reflector.Error
		require.ErrorAs(t, failed, &asked)
		assert.Equal(t, "c", asked.Key.Name)

		require.NoError(t, server.Delete(onNode("a", "")))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, i.Cache().Len())
		_, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "c"})
		assert.True(t, ok)
		assert.NotEmpty(t, i.Cache().ResourceVersion())
		require.NoError(t, stop())
	})
}
