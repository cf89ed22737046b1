package klogging

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestLoggerLogsBySlog(t *testing.T) {
	var out bytes.Buffer
	logger := Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	})))
	logger.With(zap.String("informer", "pods")).Warn("slow", zap.Duration("took", time.Second), zap.Error(errors.New("ouch")), zap.Skip())
	logger.Named("rest").With(zap.Namespace("request"), zap.String("verb", "GET")).Error("failed", zap.Int("code", 500))
	logger.Info("nested", zap.Namespace("object"), zap.Inline(pair{}))
	logger.WithOptions(zap.AddStacktrace(zap.DebugLevel)).Debug("stack")
	logger.Log(zapcore.Level(-2), "below Debug")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	want := []string{
		`level=WARN msg=slow informer=pods took=1s error=ouch`,
		`level=ERROR msg=failed request.verb=GET request.logger=rest request.code=500`,
		`level=INFO msg=nested object.name=a object.namespace=ns`,
	}
	for n, line := range want {
		assert.Equal(t, line, string(lines[n]))
	}
	assert.Contains(t, string(lines[3]), "level=DEBUG msg=stack stack=")
	assert.Len(t, lines, 4, "the level below Debug is not enabled")
	assert.NoError(t, logger.Sync())
}

func TestLoggerKeepsTheCaller(t *testing.T) {
	var out bytes.Buffer
	Logger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true}))).Info("here")
	assert.Contains(t, out.String(), "core_test.go")
	assert.Contains(t, out.String(), "TestLoggerKeepsTheCaller")
}

func TestLevelsAreThoseOfSlog(t *testing.T) {
	for level, want := range map[zapcore.Level]slog.Level{
		zapcore.FatalLevel: slog.LevelError, zapcore.ErrorLevel: slog.LevelError, zapcore.WarnLevel: slog.LevelWarn,
		zapcore.InfoLevel: slog.LevelInfo, zapcore.DebugLevel: slog.LevelDebug, -4: slog.LevelDebug - 3,
	} {
		assert.Equal(t, want, slogLevel(level), level)
	}
}

type pair struct{}

func (pair) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("namespace", "ns")
	to.AddString("name", "a")
	return nil
}
