package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKeyAsText(t *testing.T) {
	assert.Equal(t, "a", Key{Name: "a"}.String())
	assert.Equal(t, "n/a", Key{Namespace: "n", Name: "a"}.String())
	assert.Equal(t, "c|n/a", Key{"c", "n", "a"}.String())
	assert.Equal(t, "c|a", Key{Cluster: "c", Name: "a"}.String())
}

func TestKeysAreOrderedByClusterNamespaceName(t *testing.T) {
	ordered := []Key{{}, {Name: "a"}, {Name: "b"}, {Namespace: "a", Name: "z"}, {Namespace: "b"}, {Cluster: "c", Name: "a"}}
	for i, a := range ordered {
		for j, b := range ordered {
			got := a.Compare(b)
			assert.Equal(t, i < j, got < 0, "%v %v", a, b)
			assert.Equal(t, i == j, got == 0, "%v %v", a, b)
		}
	}
}

func TestObjectKeyOfBadObjects(t *testing.T) {
	var typedNil *corev1.Pod
	_, err := ObjectKey(typedNil)
	require.ErrorIs(t, err, errNilObject)
	assert.EqualError(t, err, "*v1.Pod: object has no usable key: it is nil")

	_, err = ObjectKey[metav1.Object](typedNil)
	require.ErrorIs(t, err, errNilObject, "in an interface")
	assert.EqualError(t, err, "v1.Object: object has no usable key: it is nil")
	_, err = ObjectKey[metav1.Object](nil)
	require.ErrorIs(t, err, errNilObject)
	key, err := ObjectKey[metav1.Object](pod("ns", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, Key{Namespace: "ns", Name: "a"}, key)

	type wrapped struct{ *corev1.Pod }
	_, err = ObjectKey(wrapped{})
	require.ErrorIs(t, err, errNilObject, "a value that has no object in it")

	_, err = ObjectKey(pod("ns", "", "", ""))
	assert.ErrorIs(t, err, errNoName)
	assert.ErrorIs(t, err, ErrBadKey)
	assert.EqualError(t, err, `*v1.Pod in namespace "ns": object has no usable key: its name is empty`)
}
