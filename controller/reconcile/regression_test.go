package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
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
		require.ErrorIs(t, failures[0], store.ErrBadKey)
		assert.ErrorContains(t, failures[0], "ns/s")
		fields, _ := h.logged("handler failed")
		assert.Equal(t, "ns/s", fields["key"])
	})
}

func TestWhereOfAnotherTypeIsAnErrorOfRun(t *testing.T) {
	w := newWorld(t)
	r := New("test", w.configMaps, (&list{}).noting(), Where(GenerationChanged[*corev1.Secret]))
	want := "reconciler test: predicate of Where is for another type than the primary informer has: it is for *v1.Secret"
	assert.EqualError(t, r.Run(t.Context()), want)
	assert.EqualError(t, r.Ready(), want)
}

func TestKeyIsReconciledAgainWhenItsWriteIsNotSeenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range [][]Option{nil, {IgnoreOwnWrites()}} {
			h := open(t)
			h.create(configMap("a"))
			h.options = append(options, WithReadYourWritesTimeout(10*time.Second))
			release := h.deafen(1)
			h.reconcile = func(ctx context.Context, name string) error {
				if len(h.calls.peek()) > 1 {
					return nil
				}
				return h.write(ctx, "s", name)
			}
			stop := h.start()
			<-time.After(9 * time.Second)
			require.Equal(t, []string{"a"}, h.calls.peek())
			<-time.After(time.Minute)
			require.Equal(t, []string{"a", "a"}, h.calls.peek(), "once, since nothing is written then")
			release()
			require.NoError(t, stop())
		}
	})
}

func TestReconcileFailureIsLoggedWithTheNextTryAndNoStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fail := range []func() error{
			func() error { return errors.New("ouch") },
			func() error { return eventqueue.Permanent(errors.New("ouch")) },
			func() error { panic("ouch") },
		} {
			h := open(t)
			h.logTo()
			h.create(configMap("a"))
			h.reconcile = func(context.Context, string) error {
				if len(h.calls.peek()) > 1 {
					return nil
				}
				return fail()
			}
			stop := h.start()
			<-time.After(time.Minute)
			require.NoError(t, stop())
			fields, stack := h.logged("reconcile failed")
			assert.Equal(t, "test", fields["reconciler"])
			assert.Equal(t, "ns/a", fields["key"])
			assert.EqualValues(t, 1, fields["attempt"])
			assert.Contains(t, fields["error"], "ouch")
			assert.Empty(t, stack)
			if fields["final"] == true {
				assert.NotContains(t, fields, "nextTry")
			} else {
				assert.InDelta(t, 4*time.Millisecond, fields["nextTry"], float64(2*time.Millisecond))
			}
			if _, panicked := fields["handlerStack"]; panicked {
				assert.Contains(t, fields["handlerStack"], "regression_test.go")
			}
		}
	})
}

func TestReconcilerLogsTheInformersThatDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.logTo()
		stop := h.startAlone()
		<-time.After(9 * time.Second)
		require.Empty(t, h.lines.All(), "they may be about to start")
		<-time.After(time.Hour)
		fields, _ := h.logged(notRunning)
		assert.Equal(t, "test", fields["reconciler"])
		assert.Equal(t, []any{"*v1.ConfigMap", "secrets"}, fields["informers"])
		require.NoError(t, stop())
	})
}

func TestReconcilerDoesNotLogInformersThatRunButAreNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.logTo()
		h.server.Inject(reflectortest.Stall(nil))
		stop := h.start()
		<-time.After(time.Minute)
		assert.Zero(t, h.lines.FilterMessage(notRunning).Len())
		require.NoError(t, stop())
	})
}
