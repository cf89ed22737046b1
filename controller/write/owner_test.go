package write

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func owner(uid types.UID) *Bucket {
	return &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: uid}}
}

func TestOwnTakesNothingFromAnotherController(t *testing.T) {
	held := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u0"}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", OwnerReferences: []metav1.OwnerReference{held}}}
	require.NoError(t, Own(owner("u1"), bucketKind, object))
	assert.Equal(t, []metav1.OwnerReference{held, *metav1.NewControllerRef(owner("u1"), bucketKind)}, object.OwnerReferences)

	err := Own(owner("u2"), bucketKind, object)
	var taken *OwnedError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, types.UID("u1"), taken.Owner.UID)
	assert.Equal(t, "ns/c", taken.Key.String())
	assert.True(t, metav1.IsControlledBy(object, owner("u1")), "nothing has changed")
}

func TestOwnChangesAReferenceInItsPlace(t *testing.T) {
	old := *metav1.NewControllerRef(owner("u1"), bucketKind)
	old.APIVersion, old.BlockOwnerDeletion = "example.com/v1alpha1", nil
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{old, {Kind: "Node", UID: "u0"}}}}
	shared := object.OwnerReferences
	require.NoError(t, Own(owner("u1"), bucketKind, object))
	assert.Equal(t, []metav1.OwnerReference{*metav1.NewControllerRef(owner("u1"), bucketKind), {Kind: "Node", UID: "u0"}}, object.OwnerReferences)
	assert.Equal(t, "example.com/v1alpha1", shared[0].APIVersion, "a shallow copy shares it")
}

func TestOwnersAreOfTheSameNamespaceOrOfNone(t *testing.T) {
	assert.ErrorIs(t, Own(owner("u1"), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}), ErrOtherNamespace)
	assert.ErrorIs(t, Own(owner("u1"), bucketKind, &corev1.Namespace{}), ErrOtherNamespace)
	global := owner("u1")
	global.Namespace = ""
	assert.NoError(t, Own(global, bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}))
	assert.ErrorIs(t, Own(owner(""), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}), ErrNoVersion)
}

func TestAdoptPatchesWhatBelongsToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u0"}
		held := w.configMap(func(c *corev1.ConfigMap) { c.OwnerReferences = []metav1.OwnerReference{other} })
		got, err := Adopt(t.Context(), w.configMaps, owner("u1"), bucketKind, held)
		require.NoError(t, err)
		assert.True(t, metav1.IsControlledBy(got, owner("u1")))
		assert.Len(t, w.get().OwnerReferences, 2)
		assert.Equal(t, []metav1.OwnerReference{other}, held.OwnerReferences, "the cached one is everybody's")

		w.writes()
		_, err = Adopt(t.Context(), w.configMaps, owner("u2"), bucketKind, got)
		var taken *OwnedError
		require.ErrorAs(t, err, &taken)
		assert.Zero(t, w.writes())
	})
}
