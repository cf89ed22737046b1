package persist

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubereflector/kubereflector/store"
)

// These tests hold persist-P6.

type secretMetadata[K any] struct{ *metav1.PartialObjectMetadata }

// bundle has Secrets in its fields.
type bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Parts             map[string][]*part `json:"parts"`
}

type part struct {
	Whole   *bundle         `json:"whole,omitempty"`
	Secrets []corev1.Secret `json:"secrets"`
}

func (b *bundle) DeepCopyObject() runtime.Object { return b }

// pair is a generic type with more than one argument.
type pair[A, B any] struct {
	_ A
	_ B
}

// values is what somebody keeps of an object of type T.
type values[T any] map[string]string

func TestSecretsAreRefused(t *testing.T) {
	path := fresh(t)
	_, err := Open(path, store.ObjectKey[*bundle], Options[*bundle]{})
	require.ErrorIs(t, err, ErrSecret)
	_, err = Open(path, store.ObjectKey[*corev1.Secret], Options[*corev1.Secret]{})
	require.ErrorIs(t, err, ErrSecret)
	_, err = Open(path, store.ObjectKey[secretMetadata[corev1.Secret]], Options[secretMetadata[corev1.Secret]]{})
	require.ErrorIs(t, err, ErrSecret)
	for _, secrets := range []any{
		pair[corev1.Secret, int]{}, pair[int, corev1.Secret]{}, pair[*corev1.Secret, int]{}, pair[int, []corev1.Secret]{}, &pair[int, map[string]corev1.SecretList]{},
		values[corev1.Secret]{}, &values[corev1.Secret]{}, []values[corev1.Secret]{}, map[string]*values[corev1.Secret]{}, struct{ V values[corev1.Secret] }{},
	} {
		assert.True(t, isSecretType(reflect.TypeOf(secrets)), "%T", secrets)
	}
	assert.False(t, isSecretType(reflect.TypeFor[pair[corev1.SecretReference, int]]()))
	assert.False(t, isSecretType(reflect.TypeFor[*values[corev1.Pod]]()))
	assert.False(t, isSecretType(reflect.TypeFor[struct{ V values[corev1.Pod] }]()))
	_, err = Open(path, store.ObjectKey[*object], Options[*object]{Resource: "v1 secrets in default"})
	require.ErrorIs(t, err, ErrSecret)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is made")

	s, err := Open(path, store.ObjectKey[*corev1.Secret], Options[*corev1.Secret]{AllowSecrets: true})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "1"}}}, "1"))
	require.NoError(t, s.Close())
	refused(t, path, Options[*corev1.Secret]{}, ErrSecret)
}

func TestSecretsWithoutATypeAreRejectedOneByOne(t *testing.T) {
	thing := func(apiVersion, kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "resourceVersion": "5"},
		}}
	}
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*unstructured.Unstructured], Options[*unstructured.Unstructured]{})
	require.NoError(t, err)
	err = s.Replace([]*unstructured.Unstructured{
		thing("v1", "ConfigMap", "a"), thing("v1", "Secret", "b"), thing("example.com/v1", "Secret", "c"),
	}, "9")
	require.ErrorIs(t, err, ErrSecret)
	assert.Equal(t, 2, s.Len(), "one of another group is no Secret")
	require.NoError(t, s.Close())
	assert.NotContains(t, string(contentOf(t, path)), `"name":"b"`)

	type anyObject interface {
		runtime.Object
		metav1.Object
	}
	mixed, err := Open(fresh(t), func(o anyObject) (store.Key, error) { return store.Key{Name: o.GetName()}, nil }, Options[anyObject]{Codec: none[anyObject]{}})
	require.NoError(t, err)
	defer mixed.Close()
	require.ErrorIs(t, mixed.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b"}}), ErrSecret)
	require.ErrorIs(t, mixed.Add(&bundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}}), ErrSecret)
	require.NoError(t, mixed.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "refers"}}))
	require.NoError(t, mixed.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	require.ErrorIs(t, mixed.Add(partial), ErrSecret)
}

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
