package controller

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestMappingPanicReachesTheInformersLoggerAndErrorHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t) // the reconciler has no logger and no hook of its own
		h.create(configMap("a"), secret("s", "a"))
		h.mapping = func(*corev1.Secret) []string { panic("ouch") }
		stop := h.start()
		synctest.Wait()
		require.NoError(t, stop())
		fields, _ := h.logged("handler failed")
		assert.Equal(t, "ns/s", fields["key"])
		assert.Equal(t, "test", fields["subscriber"])
		assert.Contains(t, fields["handlerStack"], "regression_test.go")
		failures := h.hooked.take()
		require.Len(t, failures, 1, "an event is reported once")
		panicked := &eventqueue.PanicError{}
		require.ErrorAs(t, failures[0], &panicked)
		assert.Equal(t, "ouch", panicked.Value)
		assert.Equal(t, "ns/s", panicked.Key.String())
		assert.Equal(t, []string{"a"}, h.calls.take(), "other events are mapped")
	})
}

func TestKeyWithoutANameIsReportedAndNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.create(secret("s", "a"))
		h.mapping = func(*corev1.Secret) []string { return []string{"", "a"} }
		stop := h.start()
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"a"}, h.calls.take(), "the other keys of the event are reconciled")
		failures := h.hooked.take()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], ErrUnnamedKey)
		assert.ErrorContains(t, failures[0], "ns/s")
		fields, _ := h.logged("handler failed")
		assert.Equal(t, "ns/s", fields["key"])
	})
}
