package informer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestOptionsReachTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		down := errors.New("down")
		clientset.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
		core, logs := observer.New(zap.WarnLevel)
		var failures []error
		i := New(clientset.CoreV1().Pods("default"), WithLogger(zap.New(core)),
			WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }),
			WithReflector(reflector.WithName("my pods")))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		require.Len(t, failures, 1)
		assert.EqualError(t, failures[0], `reflector my pods: list at resource version "0": down`)
		assert.Equal(t, 1, logs.Len())
	})
}

func TestInformerOverAClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}})
		pods := clientset.CoreV1().Pods("default")
		i := New(pods)
		byNode, err := store.AddIndex(i.Cache(), "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		require.NoError(t, err)
		var d diary
		i.Handle(d.funcs())
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, reflector.Watching, i.State().Phase)
		_, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: corev1.PodSpec{NodeName: "n1"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for key := range byNode.Get("n1") {
			assert.Equal(t, "default/new", key.String())
		}
		changed := i.Changed(i.State())
		require.NoError(t, stop())
		assert.True(t, isDone(changed))
		assert.Equal(t, []string{"initial old@", "add new@"}, d.read())
		assert.Equal(t, 2, i.Cache().Len())
	})
}
