package persist

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kubereflector/kubereflector/store"
)

// item is an object as it is in a list: a server does not repeat the kind there.
func item(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name, "uid": name, "resourceVersion": "5"},
		"whole":    int64(1 << 60), "broken": 0.5,
	}}
}

func TestItemsOfListsWithoutAKindAreFoundAgain(t *testing.T) {
	path := fresh(t)
	things := Options[*unstructured.Unstructured]{Resource: "things"}
	s, err := Open(path, store.ObjectKey[*unstructured.Unstructured], things)
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*unstructured.Unstructured{item("a")}, "9"))
	require.NoError(t, s.Close())

	s, err = Open(path, store.ObjectKey[*unstructured.Unstructured], things)
	require.NoError(t, err)
	defer s.Close()
	found, ok := s.Get(store.Key{Name: "a"})
	require.True(t, ok)
	assert.Equal(t, item("a"), found)
}

func TestWhatDoesNotSayItsKindIsNoSecretOnlyIfTheResourceSaysSo(t *testing.T) {
	s, err := Open(fresh(t), store.ObjectKey[*unstructured.Unstructured], Options[*unstructured.Unstructured]{})
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, s.Replace([]*unstructured.Unstructured{item("a")}, "9"), ErrKindUnknown)
	require.ErrorIs(t, s.Add(item("a")), ErrSecret)
	assert.Zero(t, s.Len())

	type metadata = *metav1.PartialObjectMetadata
	asServed := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
	}
	for resource, cause := range map[string]error{"": ErrKindUnknown, "configmaps": nil} {
		m, err := Open(fresh(t), store.ObjectKey[metadata], Options[metadata]{Resource: resource})
		require.NoError(t, err)
		require.ErrorIs(t, m.Add(asServed), cause)
		require.ErrorIs(t, m.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b"}}), cause)
		require.NoError(t, m.Close())
	}
	allowed, err := Open(fresh(t), store.ObjectKey[metadata], Options[metadata]{AllowSecrets: true})
	require.NoError(t, err)
	require.NoError(t, allowed.Add(asServed))
	require.NoError(t, allowed.Close())
}
