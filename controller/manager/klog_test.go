package manager

import (
	"errors"
	"flag"
	"log/slog"
	"testing"
	"testing/slogtest"

	"github.com/kubereflector/kubereflector/internal/klogging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/klog/v2"
)

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
		assert.Contains(t, entry.Caller.File, "klog_test.go", entry.Message)
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
