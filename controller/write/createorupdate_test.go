package write

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCreateOrUpdateCreatesThenPatchesADifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key, size := newWorld(t), store.Key{Namespace: "ns", Name: "b"}, 3
		resize := func(b *Bucket) error {
			b.Spec.Size = size
			return nil
		}
		made, err := CreateOrUpdate(t.Context(), w.buckets, nil, key, resize)
		require.NoError(t, err)
		assert.Equal(t, 3, made.Spec.Size)
		assert.Equal(t, 1, w.writes())

		same, err := CreateOrUpdate(t.Context(), w.buckets, made, key, resize)
		require.NoError(t, err)
		assert.Same(t, made, same)
		assert.Zero(t, w.writes(), "nothing differs")

		size = 4
		changed, err := CreateOrUpdate(t.Context(), w.buckets, made, key, resize)
		require.NoError(t, err)
		assert.Equal(t, 4, changed.Spec.Size)
		assert.Equal(t, 3, made.Spec.Size, "the cached object is not changed")

		_, err = CreateOrUpdate(t.Context(), w.buckets, nil, key, resize)
		assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		_, err = CreateOrUpdate(t.Context(), w.buckets, made, key, func(b *Bucket) error { b.Spec.Size = 9; return nil })
		assert.True(t, apierrors.IsConflict(err), "%v", err)
	})
}

func TestCreateOrUpdateSendsNothingIfTheChangeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ouch := newWorld(t), errors.New("ouch")
		fails := func(*Bucket) error { return ouch }
		for _, held := range []*Bucket{nil, {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}} {
			_, err := CreateOrUpdate(t.Context(), w.buckets, held, store.Key{Namespace: "ns", Name: "b"}, fails)
			assert.ErrorIs(t, err, ouch)
			assert.ErrorContains(t, err, "ns/b")
		}
		assert.Zero(t, w.writes())
	})
}

func TestObjectOfAnotherNamespaceThanTheClientIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "u", ResourceVersion: "1"}}
		want := *held
		want.Spec.Size = 4
		_, err := Patch(t.Context(), w.buckets.In("other"), held, &want)
		assert.ErrorIs(t, err, client.ErrOtherObject)
		assert.ErrorIs(t, Delete(t.Context(), w.buckets.In("other"), held), client.ErrOtherObject)
		assert.Zero(t, w.writes())
	})
}
