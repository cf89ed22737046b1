package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/klogging"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func TestFailuresAreLoggedOnceBySlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		require.NoError(t, server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}))
		var out bytes.Buffer // slog's handlers lock it
		m := New(server.Config(), WithLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		secrets, err := Informer[*corev1.Secret](m, Selection{})
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
		configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
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

func TestWhatKlogLogsGoesToTheLogger(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	defer RouteKlog(zap.New(core, zap.AddCaller()))()
	failure := errors.New("no")
	klog.Infof("it is %d", 1)
	klog.Warning("careful")
	klog.ErrorS(failure, "failed", "pod", klog.KRef("ns", "a"))
	klog.Background().WithValues("verb", "GET").WithName("rest").Info("asked", "code", 200)
	klog.Background().V(1).Info("detail")
	klog.Background().V(2).Info("more than that")
	klog.Background().V(8).Info("Request Body")
	klog.Background().V(200).Info("out of range")

	var said []string
	for _, entry := range logs.All() {
		said = append(said, entry.Level.String()+" "+entry.Message)
		assert.Contains(t, entry.Caller.File, "log_test.go", entry.Message)
	}
	assert.Equal(t, []string{"info it is 1", "info careful", "error failed", "info asked", "debug detail"}, said)
	assert.Equal(t, map[string]any{"err": "no", "pod": map[string]any{"name": "a", "namespace": "ns"}}, logs.All()[2].ContextMap())
	assert.Equal(t, map[string]any{"verb": "GET", "logger": "rest", "code": int64(200)}, logs.All()[3].ContextMap())
}

func TestMoreOfKlogIsToldAtTheLevelsBelowDebug(t *testing.T) {
	core, logs := observer.New(zapcore.Level(-4))
	defer RouteKlog(zap.New(core))()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	require.NoError(t, flags.Set("v", "3"))
	klog.V(4).Info("above the flag")
	klog.V(3).Info("within both")
	klog.Background().V(4).Info("contextual")
	klog.Background().V(5).Info("too much")
	var said []string
	for _, entry := range logs.All() {
		said = append(said, entry.Message)
	}
	assert.Equal(t, []string{"within both", "contextual"}, said)
}

func TestKlogIsRestored(t *testing.T) {
	first, firstLogs := observer.New(zap.InfoLevel)
	second, secondLogs := observer.New(zap.InfoLevel)
	defer RouteKlog(zap.New(first))()
	restore := RouteKlog(zap.New(second))
	klog.Info("to the second")
	restore()
	klog.Info("to the first")
	assert.Equal(t, 1, secondLogs.Len())
	require.Equal(t, 1, firstLogs.Len())
	assert.Equal(t, "to the first", firstLogs.All()[0].Message)
}

func TestOptionRoutesKlogToTheLoggerOfTheManager(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	defer klog.CaptureState().Restore()
	New(nil, WithKlog(), WithLogger(zap.New(core)))
	klog.Info("here")
	assert.Equal(t, 1, logs.FilterMessage("here").Len())
	other, otherLogs := observer.New(zap.InfoLevel)
	New(nil, WithLogger(zap.New(other)))
	klog.Info("here")
	assert.Zero(t, otherLogs.Len(), "nobody asked for it")
}

// What slog demands of a handler, the time apart, which zap says itself.
func TestKlogHandlerIsOneOfSlog(t *testing.T) {
	var logs *observer.ObservedLogs
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		if t.Name() == "TestKlogHandlerIsOneOfSlog/zero-time" {
			t.Skip("zap has the time of the entry")
		}
		var core zapcore.Core
		core, logs = observer.New(zap.InfoLevel)
		return klogging.Handler(zap.New(core))
	}, func(t *testing.T) map[string]any {
		entry := logs.All()[0]
		all := entry.ContextMap()
		all[slog.MessageKey], all[slog.LevelKey], all[slog.TimeKey] = entry.Message, entry.Level, entry.Time
		return all
	})
}
