package series_test

import (
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func nodeOf(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

func TestTextInformerAndListerShareTheIndexer(t *testing.T) {
	indexer := series.NewIndexer(nodeOf)
	lister := series.NewLister(indexer)
	require.NoError(t, indexer.Replace([]*corev1.Pod{newTextPod("db", "1", "node-1"), newTextPod("web", "1", "node-1")}, "1"))
	assert.Len(t, lister.ByIndex("node-1"), 2)
	require.NoError(t, errors.Join(indexer.Update(newTextPod("web", "2", "node-2")), indexer.Delete(newTextPod("db", "1", ""))))
	assert.Empty(t, lister.ByIndex("node-1"))
	assert.Len(t, lister.ByIndex("node-2"), 1)
	assert.Len(t, lister.List("default"), 1)
	assert.Empty(t, lister.List("another"))
}

// A worker changes the object of the lister instead of a copy. The indexer asks the index function
// again which values the object had, and gets the new one.
func TestTextAnObjectChangedInPlaceStaysUnderItsOldValue(t *testing.T) {
	both(t, func(t *testing.T) {
		indexer := series.NewIndexer(nodeOf)
		require.NoError(t, indexer.Add(newTextPod("web", "1", "node-1")))
		held, _ := series.NewLister(indexer).Get("default/web")
		held.Spec.NodeName = "node-2"
		require.NoError(t, indexer.Update(newTextPod("web", "2", "node-2")))
		found := indexer.ByIndex("node-1")
		require.Len(t, found, 1)
		assert.Equal(t, "node-2", found[0].Spec.NodeName)
	}, func(t *testing.T) {
		pods := store.New(store.ObjectKey[*corev1.Pod])
		byNode, err := store.AddIndex(pods, "node", nodeOf)
		require.NoError(t, err)
		require.NoError(t, pods.Add(newTextPod("web", "1", "node-1")))
		held, _ := pods.Get(store.Key{Namespace: "default", Name: "web"})
		held.Spec.NodeName = "node-2"
		require.NoError(t, pods.Update(newTextPod("web", "2", "node-2")))
		for key := range byNode.Get("node-1") {
			t.Error(key, "is under its old value")
		}
	})
}
