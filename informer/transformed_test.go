package informer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// site is all that a subscriber wants to know of a pod: no metadata.
type site struct{ namespace, name, node string }

func (s site) key() (store.Key, error) { return store.Key{Namespace: s.namespace, Name: s.name}, nil }

var errNoNode = errors.New("no node")

func siteOf(p *corev1.Pod) (site, error) {
	if p.Spec.NodeName == "" {
		return site{}, errNoNode
	}
	return site{p.Namespace, p.Name, p.Spec.NodeName}, nil
}

func onNode(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func clientOf(t *testing.T, server *reflectortest.Server) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return client
}

func TestTransformedInformerOfATypeWithoutMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n1")))
		require.NoError(t, server.Create(onNode("b", "n1")))
		calls := map[string]int{}
		var failures []error
		i := NewTransformed(clientOf(t, server).CoreV1().Pods("default"), func(p *corev1.Pod) (site, error) {
			calls[p.Name]++
			return siteOf(p)
		}, site.key, WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		var mu sync.Mutex // protects told
		var told []eventqueue.Event[site]
		events := func() []eventqueue.Event[site] {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		i.Handle(HandlerFunc[site](func(_ context.Context, e eventqueue.Event[site]) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
			return nil
		}), WithResync(time.Minute))
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, "informer.site", i.Name())
		got, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		assert.True(t, ok)
		assert.Equal(t, site{"default", "a", "n1"}, got)
		assert.Len(t, events(), 2)

		<-time.After(90 * time.Second)
		synctest.Wait()
		require.Len(t, events(), 4)
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, calls, "a resync does not transform again")

		require.NoError(t, server.Update(onNode("a", "n2")))
		zero := int64(0)
		require.NoError(t, clientOf(t, server).CoreV1().Pods("default").Delete(t.Context(), "b", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
		require.NoError(t, server.Create(onNode("b", "n1")))
		synctest.Wait()
		require.NoError(t, stop())
		var words []string
		for _, e := range events()[4:] {
			words = append(words, e.String()+" "+e.Prior.node+">"+e.Object.node)
		}
		// A pod is marked before it is deleted. The two are one event unless the handler is quick.
		words = slices.DeleteFunc(words, func(w string) bool { return w == "Modification of default/b (Watch) n1>n1" })
		assert.Equal(t, []string{
			"Modification of default/a (Watch) n1>n2", "Deletion of default/b (Watch) n1>n1", "Addition of default/b (Watch) >n1",
		}, words)
		assert.Empty(t, failures)
	})
}

func TestObjectThatCannotBeTransformedIsReportedAndComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n1")))
		require.NoError(t, server.Create(onNode("b", "")))
		var failures []error
		i := NewTransformed(clientOf(t, server).CoreV1().Pods("default"), siteOf, site.key,
			WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		stop := start(t, i)
		<-i.Synced()
		synctest.Wait()
		assert.Equal(t, 1, i.Cache().Len(), "everything else is there")
		require.NotEmpty(t, failures)
		assert.ErrorIs(t, failures[0], errNoNode)
		require.NoError(t, server.Update(onNode("b", "n2")))
		<-time.After(time.Minute)
		assert.Equal(t, 2, i.Cache().Len())
		require.NoError(t, stop())
	})
}
