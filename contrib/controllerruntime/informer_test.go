package controllerruntime

import (
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// TestInformerOfAListerWatcherServesACache leaves requests to controller-runtime.
func TestInformerOfAListerWatcherServesACache(t *testing.T) {
	server := newServer(t)
	c := started(t, server.Config(), cache.Options{NewInformer: clientgo.NewSharedIndexInformer})
	var pods corev1.PodList
	require.NoError(t, c.List(t.Context(), &pods))
	assert.Len(t, pods.Items, 3)
	i, err := c.GetInformer(t.Context(), &corev1.Pod{})
	require.NoError(t, err)
	assert.IsType(t, &clientgo.SharedIndexInformer[clientgo.Object]{}, i)
}

func TestObjectsOfAnotherTypeThanTheExampleAreRejected(t *testing.T) {
	i := newInformer(&toolscache.ListWatch{}, &corev1.Node{}, 0, nil)
	_, err := i.prepare(&corev1.Pod{})
	wrong, ok := errors.AsType[*clientgo.TypeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "object is a *v1.Pod, not a *v1.Node", wrong.Error())
	_, err = i.prepare(&corev1.Node{})
	assert.NoError(t, err)
}

func TestIndexersAreAdded(t *testing.T) {
	i := newInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	assert.Contains(t, i.GetIndexer().GetIndexers(), toolscache.NamespaceIndex)
	assert.Panics(t, func() {
		newInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{"none": nil})
	})
}
