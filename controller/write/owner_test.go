package write

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
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

func TestErrorsHaveAtMostOneKibibyte(t *testing.T) {
	long := strings.Repeat("x", 2000)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: long, UID: "u", ResourceVersion: "1"}}
	_, ofPatch := Patch(t.Context(), nil, object, object)
	_, ofCreate := CreateOrUpdate[*corev1.ConfigMap](t.Context(), nil, nil, store.Key{Namespace: "ns", Name: long}, func(*corev1.ConfigMap) error { return errors.New(long) })
	_, ofFinalizer := AddFinalizer(t.Context(), nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", DeletionTimestamp: new(metav1.Time)}}, long)
	object.OwnerReferences = []metav1.OwnerReference{{Kind: long, Name: long, UID: "u0", Controller: new(true)}}
	for name, err := range map[string]error{
		"the same object": ofPatch, "a function": ofCreate, "a finalizer": ofFinalizer,
		"another controller": Own(owner("u1"), bucketKind, object),
		"another namespace":  Own(owner("u1"), bucketKind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: long}}),
	} {
		require.Error(t, err, name)
		assert.LessOrEqual(t, len(err.Error()), 1<<10, name)
	}
	assert.ErrorIs(t, ofPatch, ErrSame)
	assert.ErrorContains(t, ofPatch, ErrSame.Error())
	assert.ErrorIs(t, ofFinalizer, ErrDeleting)
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
