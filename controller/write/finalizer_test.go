package write

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const finalizer = "example.com/test"

func TestObjectIsAliveOnceItHasTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/other"} })
		never := func(context.Context, *corev1.ConfigMap) error { panic("it is not being deleted") }

		fault := w.server.Inject(reflectortest.Answer(500).On("patch", "configmaps"))
		current, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, never)
		assert.Error(t, err)
		assert.False(t, alive, "the server does not have it")
		assert.Same(t, held, current)
		fault.Remove()

		got, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, never)
		require.NoError(t, err)
		assert.True(t, alive)
		assert.Equal(t, []string{"example.com/other", finalizer}, got.Finalizers)
		assert.Equal(t, got, w.get())
		w.writes()
		_, alive, err = Finalize(t.Context(), w.configMaps, got, finalizer, never)
		require.NoError(t, err)
		assert.True(t, alive)
		assert.Zero(t, w.writes())
	})
}

func TestFinalizerGoesAfterTheCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} })
		require.NoError(t, w.configMaps.Delete(t.Context(), "c", metav1.DeleteOptions{}))
		held := w.get()
		w.writes()

		ouch := errors.New("ouch")
		_, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, func(context.Context, *corev1.ConfigMap) error { return ouch })
		assert.ErrorIs(t, err, ouch)
		assert.False(t, alive)
		assert.Zero(t, w.writes())

		cleaned := 0
		cleanup := func(_ context.Context, c *corev1.ConfigMap) error {
			assert.Equal(t, held, c)
			assert.Equal(t, []string{finalizer}, w.get().Finalizers, "not before the cleanup")
			cleaned++
			return nil
		}
		fault := w.server.Inject(reflectortest.Answer(500).On("patch", "configmaps"))
		current, alive, err := Finalize(t.Context(), w.configMaps, held, finalizer, cleanup)
		assert.Error(t, err)
		assert.False(t, alive)
		assert.Same(t, held, current)
		fault.Remove()
		_, alive, err = Finalize(t.Context(), w.configMaps, held, finalizer, cleanup)
		require.NoError(t, err)
		assert.False(t, alive)
		assert.Equal(t, 2, cleaned)
		_, err = w.configMaps.Get(t.Context(), "c", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "it was the last one")
	})
}

func TestDeletionWithoutTheFinalizerIsNobodysBusiness(t *testing.T) {
	now := metav1.Now()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: &now, Finalizers: []string{"example.com/other"}}}
	never := func(context.Context, *corev1.ConfigMap) error { panic("it is somebody else's") }
	_, alive, err := Finalize(t.Context(), Patcher[*corev1.ConfigMap](nil), held, finalizer, never)
	assert.NoError(t, err)
	assert.False(t, alive)
	_, err = AddFinalizer(t.Context(), Patcher[*corev1.ConfigMap](nil), held, finalizer)
	assert.ErrorIs(t, err, ErrDeleting)
}
