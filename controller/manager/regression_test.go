package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func TestStopWithAKeyInBackOffIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		core, lines := observer.New(zap.WarnLevel)
		m := New(server.Config(), WithLogger(zap.New(core)))
		configMaps, err := Informer[*corev1.ConfigMap](m, Source{})
		require.NoError(t, err)
		Reconcile(m, "painter", configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("ouch")
		})
		stop := start(t, m)
		synctest.Wait()
		require.NoError(t, stop())
		left := lines.FilterMessage("member ended with work left").All()
		require.Len(t, left, 1)
		assert.Equal(t, "painter", left[0].ContextMap()["member"])
		assert.Contains(t, left[0].ContextMap()["error"], "ns/a")
	})
}

func TestStopWithAnUnwrittenEventIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		core, lines := observer.New(zap.WarnLevel)
		m := New(nil, WithLogger(zap.New(core)))
		events := recorder.New(clientset.EventsV1(), "painter")
		m.Add(events)
		stop := start(t, m)
		synctest.Wait()
		server.Inject(reflectortest.Stall(nil))
		events.Eventf(&corev1.ObjectReference{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, nil, corev1.EventTypeNormal, "Painted", "Paint", "done")
		require.NoError(t, stop())
		left := lines.FilterMessage("member ended with work left").All()
		require.Len(t, left, 1)
		assert.Equal(t, events.Name(), left[0].ContextMap()["member"])
		assert.Equal(t, recorder.ErrUnwritten.Error(), left[0].ContextMap()["error"])
	})
}

func TestOtherFailuresAtTheEndAreReturned(t *testing.T) {
	left := &eventqueue.DrainError{Pending: []eventqueue.Pending{{Key: store.Key{Name: "a"}}}}
	assert.True(t, onlyLeft(errors.Join(fmt.Errorf("subscriber s: %w", left), left)))
	assert.False(t, onlyLeft(errors.Join(left, errors.New("ouch"))))
	assert.True(t, onlyLeft(fmt.Errorf("events: %w", recorder.ErrUnwritten)))
	assert.False(t, onlyLeft(nil))
}

func TestRunFailsIfAReconcilersInformerDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, calls := watchingSecrets(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := m.Run(ctx)
		require.NoError(t, ctx.Err(), "Run fails at once")
		var failed *MemberError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "painter", failed.Member)
		assert.ErrorContains(t, err, `informer "secrets"`)
		assert.Empty(t, calls.take())
	})
}

func TestRunTakesInformersOfReconcilersThatRun(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, m *Manager, secrets informer.Member) (stop func() error){
		"member": func(_ *testing.T, m *Manager, secrets informer.Member) func() error { m.Add(secrets); return nil },
		"member of a nested manager": func(_ *testing.T, m *Manager, secrets informer.Member) func() error {
			m.Add(nest(nest(secrets)))
			return nil
		},
		"member of a led manager": func(_ *testing.T, m *Manager, secrets informer.Member) func() error {
			m.AddLed(nest(secrets))
			return nil
		},
		"run before": func(t *testing.T, _ *Manager, secrets informer.Member) func() error { return start(t, secrets) },
		"run by a member of the user": func(_ *testing.T, m *Manager, secrets informer.Member) func() error {
			m.Add(&member{notes: &journal{}, run: secrets.Run})
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, secrets, calls := watchingSecrets(t)
			stopSecrets := prepare(t, m, secrets)
			stop := start(t, m)
			<-time.After(time.Minute)
			assert.Equal(t, []string{"ns/a"}, calls.take(), name)
			require.NoError(t, stop(), name)
			if stopSecrets != nil {
				require.NoError(t, stopSecrets(), name)
			}
		})
	}
}
