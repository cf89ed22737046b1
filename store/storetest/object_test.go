package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

func TestObjectHasTheMetadataOfAKubernetesObject(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	key, err := store.ObjectKey(o)
	require.NoError(t, err)
	assert.Equal(t, store.Key{Namespace: "n", Name: "a"}, key)
	assert.EqualValues(t, "u1", o.GetUID())
	assert.Equal(t, "1", o.GetResourceVersion())
	assert.Panics(t, func() { (*storetest.Object)(nil).GetName() }, "as one from Kubernetes does")
}

func TestAtIsAnotherStateOfTheSameObject(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	later := o.At("2")
	assert.Equal(t, &storetest.Object{Namespace: "n", Name: "a", UID: "u1", ResourceVersion: "2", Payload: "2"}, later)
	assert.Equal(t, storetest.New("n", "a", "u1", "1"), o)
}

func TestClusterKeyHasTheCluster(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	o.Cluster = "c"
	key, err := storetest.ClusterKey(o)
	require.NoError(t, err)
	assert.Equal(t, store.Key{Cluster: "c", Namespace: "n", Name: "a"}, key)

	o.Name = ""
	key, err = storetest.ClusterKey(o)
	assert.ErrorIs(t, err, store.ErrBadKey)
	assert.Zero(t, key)
	_, err = storetest.ClusterKey(nil)
	assert.ErrorIs(t, err, store.ErrBadKey)
}

func TestObjectAsText(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	assert.Equal(t, `n/a(uid "u1", version "1")`, o.String())
	assert.Equal(t, `n/a(uid "u1", version "2")`, o.At("2").String())
	o.Payload = "p"
	assert.Equal(t, `n/a(uid "u1", version "1", payload "p")`, o.String())
	assert.Equal(t, "nil", (*storetest.Object)(nil).String())
}
