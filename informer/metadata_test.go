package informer

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func TestMetadataIsTypedByTheKindThatItStandsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(labelled(onNode("a", "n"), "web")))
		resource, err := metadata.NewForConfig(server.Config())
		require.NoError(t, err)
		i := NewMetadata[corev1.Pod](resource.Resource(podResource).Namespace("default"))
		byApp, err := store.AddIndex(i.Cache(), "app", func(m Metadata[corev1.Pod]) []string { return []string{m.Labels["app"]} })
		require.NoError(t, err)
		gone := ""
		i.Handle(HandlerFuncs[Metadata[corev1.Pod]]{OnDelete: func(m Metadata[corev1.Pod], _ bool) { gone = m.Name }})
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, "informer.Metadata[k8s.io/api/core/v1.Pod]", i.Name())
		for _, found := range byApp.Get("web") {
			assert.Equal(t, "a", found.Name)
		}
		assert.Equal(t, []string{"web"}, slices.Collect(byApp.Values()))
		require.NoError(t, server.Delete(onNode("a", "n")))
		synctest.Wait()
		assert.Equal(t, "a", gone)
		require.NoError(t, stop())
	})
	require.ErrorIs(t, NewMetadata[corev1.Node](nil).Run(t.Context()), reflector.ErrNoClient)
}

func TestUnstructuredInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		resource, err := dynamic.NewForConfig(server.Config())
		require.NoError(t, err)
		i := New(client.Dynamic(resource.Resource(podResource).Namespace("default")))
		stop := start(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		object, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
		require.True(t, ok)
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		assert.Equal(t, "n", node)
		require.NoError(t, stop())
	})
}
