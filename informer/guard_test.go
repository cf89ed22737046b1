package informer

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/guard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func TestGuardNamesTheSubscriberThatChangesAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		client, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		var mu sync.Mutex
		var told []*guard.MutationError
		found := func() []*guard.MutationError {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { told = nil }()
			return told
		}
		i := New(client.CoreV1().Pods("default"), WithName("pods"), WithMutationGuard(guard.Report(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if e, ok := errors.AsType[*guard.MutationError](err); ok {
				told = append(told, e)
			}
		})))
		i.Handle(HandlerFuncs[*corev1.Pod]{OnUpdate: func(_, pod *corev1.Pod) {
			if pod.Spec.NodeName == "m" {
				pod.Spec.NodeName = "mine"
			}
		}}, WithName("culprit"))
		puller := i.Subscribe(WithName("puller"))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Empty(t, found())

		require.NoError(t, server.Update(onNode("a", "m")))
		all := found()
		require.Len(t, all, 1)
		assert.Equal(t, "spec.nodeName", all[0].Path)
		assert.Equal(t, `"m"`, all[0].Was)
		assert.Equal(t, `"mine"`, all[0].Is)
		assert.Equal(t, "pods", all[0].Guard)
		assert.Equal(t, []string{"culprit"}, all[0].Suspects)

		require.NoError(t, server.Update(onNode("a", "o")))
		synctest.Wait()
		for event := range puller.Events(t.Context()) {
			event.Object.Labels = map[string]string{"seen": "yes"}
			break
		}
		all = found()
		require.Len(t, all, 1)
		assert.Equal(t, []string{"puller"}, all[0].Suspects)

		held, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		require.True(t, ok)
		held.Labels["seen"] = "no"
		require.NoError(t, stop())
		all = found()
		require.Len(t, all, 1, "the end of Run finds the rest")
		assert.Empty(t, all[0].Suspects)
	})
}
