package compact_test

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestPackedObjectsSayWhoTheyAre(t *testing.T) {
	for _, long := range []string{"", "x", strings.Repeat("long", 100)} {
		object := &storetest.Object{Cluster: "c" + long, Namespace: "n" + long, Name: "a" + long, UID: "u", ResourceVersion: "1" + long}
		packed, err := compact.NewPacker(storetest.ClusterKey).Pack(object)
		require.NoError(t, err)
		key, err := compact.Key(packed)
		require.NoError(t, err)
		assert.Equal(t, store.Key{Cluster: object.Cluster, Namespace: object.Namespace, Name: object.Name}, key)
		assert.Equal(t, object.Name, packed.GetName())
		assert.Equal(t, object.Namespace, packed.GetNamespace())
		assert.Equal(t, object.UID, packed.GetUID())
		assert.Equal(t, object.ResourceVersion, packed.GetResourceVersion())
		assert.Equal(t, object, packed.Object())
	}
	_, err := compact.Key[*corev1.Pod](nil)
	assert.ErrorIs(t, err, store.ErrBadKey)
}

func TestObjectsWithoutAVersionHaveNone(t *testing.T) {
	type title struct{ Name string }
	packed, err := compact.NewPacker(func(t *title) (store.Key, error) { return store.Key{Name: t.Name}, nil }).Pack(&title{"Emma"})
	require.NoError(t, err)
	assert.Empty(t, packed.GetUID())
	assert.Empty(t, packed.GetResourceVersion())
	assert.Equal(t, "Emma", packed.Object().Name)
}
