package reflectortest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestWaitForState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		cm := func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		}
		waiting := func(done func() bool) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- s.WaitFor(t.Context(), done) }()
			synctest.Wait()
			require.Empty(t, ended)
			return ended
		}

		existing := waiting(func() bool { return s.Get(cm()) == nil })
		require.NoError(t, s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}))
		synctest.Wait()
		require.Empty(t, existing)
		version := s.ResourceVersion()
		require.NoError(t, s.Create(cm()))
		require.NoError(t, <-existing)

		gone := func() bool { return apierrors.IsNotFound(s.Get(cm())) }
		deleted := waiting(gone)
		require.NoError(t, s.Delete(cm()))
		require.NoError(t, <-deleted)

		require.NoError(t, s.Create(cm()))
		restored := waiting(gone)
		require.NoError(t, s.Restore(version))
		require.NoError(t, <-restored)
	})
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.WaitFor(ctx, func() bool { return true }))
	err := s.WaitFor(ctx, func() bool { return false })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "version 1")
}
