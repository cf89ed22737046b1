package manager

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestObjectsReadsTheCacheAndWritesInTheNamespaceOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("one", "a")))
		m := New(server.Config())
		all, err := For[*corev1.ConfigMap](m, Source{})
		require.NoError(t, err)
		shared, err := Informer[*corev1.ConfigMap](m, Source{})
		require.NoError(t, err)
		assert.Same(t, shared, all.Informer)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		held, ok := all.Cache().Get(store.Key{Namespace: "one", Name: "a"})
		require.True(t, ok)
		want := held.DeepCopy()
		want.Data = map[string]string{"color": "red"}
		_, err = write.Patch(t.Context(), all.Client, held, want)
		require.NoError(t, err)
		synctest.Wait()
		held, _ = all.Cache().Get(store.Key{Namespace: "one", Name: "a"})
		assert.Equal(t, "red", held.Data["color"])
		require.NoError(t, stop())
	})
}

func TestByReferenceHoldsMetadataAndGetsObjectsAtTheirFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"used", "other"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: name}, Data: map[string][]byte{"key": []byte(name)}}
			require.NoError(t, server.Create(secret))
		}
		m := New(server.Config())
		secrets, metadata, err := ByReference[*corev1.Secret](m, Source{})
		require.NoError(t, err)
		stop := start(t, m)
		require.NoError(t, m.WaitForSync(t.Context()))
		assert.Equal(t, 2, metadata.Cache().Len())
		for range 2 {
			secret, err := secrets.Get(t.Context(), store.Key{Namespace: "one", Name: "used"})
			require.NoError(t, err)
			assert.Equal(t, "used", string(secret.Data["key"]))
		}
		assert.Len(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")), 1)
		_, err = secrets.Get(t.Context(), store.Key{Namespace: "one", Name: "missing"})
		assert.True(t, apierrors.IsNotFound(err), err)
		for _, list := range server.Requests(reflectortest.ForResource("secrets"), reflectortest.Verb("watch")) {
			assert.Contains(t, list.Header.Get("Accept"), "PartialObjectMetadata")
		}
		require.NoError(t, stop())
	})
}

func TestObjectsThatCannotBe(t *testing.T) {
	_, err := For[*corev1.ConfigMap](New(nil), Source{})
	assert.ErrorIs(t, err, ErrNoConfig)
	_, _, err = ByReference[*corev1.Secret](New(nil), Source{})
	assert.ErrorIs(t, err, ErrNoConfig)
	m := New(&rest.Config{Host: "http://localhost"})
	_, _, err = ByReference[*Paint](m, Source{})
	assert.ErrorIs(t, err, client.ErrNoKind)
	_, _, err = ByReference[*corev1.Secret](m, Source{LabelSelector: "!!"})
	assert.Error(t, err)
	assert.Empty(t, m.members)
}
