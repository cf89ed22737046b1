package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFailuresAreLoggedOnceBySlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		require.NoError(t, server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}))
		var out bytes.Buffer // slog's handlers lock it
		m := New(server.Config(), WithLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		configMaps, err := Informer[*corev1.ConfigMap](m, Source{})
		require.NoError(t, err)
		secrets, err := Informer[*corev1.Secret](m, Source{})
		require.NoError(t, err)
		calls := 0
		Reconcile(m, "painter", configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			if calls++; calls == 1 {
				return reconcile.Result{}, errors.New("ouch")
			}
			return reconcile.Result{}, nil
		}, reconcile.Watch(secrets, func(*corev1.Secret) []store.Key { panic("no map") }))
		stop := start(t, m)
		<-time.After(time.Minute)
		require.NoError(t, stop())

		lines := map[string]map[string]any{}
		for text := range bytes.Lines(out.Bytes()) {
			line := map[string]any{}
			require.NoError(t, json.Unmarshal(text, &line))
			require.Equal(t, "painter", line["reconciler"])
			lines[line["key"].(string)] = line
		}
		assert.Equal(t, 2, bytes.Count(out.Bytes(), []byte("\n")), out.String())
		failed := lines["ns/a"]
		assert.Equal(t, "reconcile failed", failed["msg"])
		assert.Equal(t, "ouch", failed["error"])
		assert.EqualValues(t, 1, failed["attempt"])
		assert.Positive(t, failed["nextTry"])
		panicked := lines["ns/s"]
		assert.Contains(t, panicked["error"], "no map")
		assert.Contains(t, panicked["handlerStack"], "log_test.go")
	})
}

func TestNilLoggerLeavesTheDefault(t *testing.T) {
	o := newOptions([]Option{WithLogger[*zap.Logger](nil), WithLogger[*slog.Logger](nil)})
	assert.True(t, o.logger.Core().Enabled(zap.WarnLevel))
	assert.False(t, o.logger.Core().Enabled(zap.InfoLevel))
}

func TestOptionsOfTheManagerApplyToAllMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		seen := &sight{}
		var names []string
		m := New(server.Config(), WithReconcilerOptions(reconcile.WithObserver(seen)), WithInformerOptions(nil),
			WithInformerOptions(func(name string) []informer.Option {
				names = append(names, name)
				return []informer.Option{informer.WithObserver(seen)}
			}))
		configMaps, err := Informer[*corev1.ConfigMap](m, Source{})
		require.NoError(t, err)
		Reconcile(m, "painter", configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		stop := start(t, m)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{configMaps.Name()}, names)
		assert.ElementsMatch(t, []string{"handler painter", "reconciler painter"}, seen.take())
	})
}

// sight notes the handlers and reconcilers that it observes.
type sight struct{ journal }

func (s *sight) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	s.addf("handler %s", call.Subscription)
	return ctx, nil
}

func (s *sight) Queues(string, string) func(eventqueue.TakeInfo) { return nil }

func (s *sight) Triggered(context.Context, reconcile.Trigger) {}

func (s *sight) Reconciling(ctx context.Context, call reconcile.Call) (context.Context, func(reconcile.Result, error)) {
	s.addf("reconciler %s", call.Reconciler)
	return ctx, nil
}
