package klogging

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns a logger that logs by slog. Debug and the levels below it are those of slog.
func Logger(logger *slog.Logger) *zap.Logger {
	return zap.New(core{logger.Handler()}, zap.AddCaller())
}

// core logs by slog.
type core struct{ handler slog.Handler }

var _ zapcore.Core = core{}

// Enabled implements [zapcore.Core].
func (c core) Enabled(level zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(level))
}

// With implements [zapcore.Core].
func (c core) With(fields []zapcore.Field) zapcore.Core {
	for n, field := range fields {
		if field.Type == zapcore.NamespaceType {
			return core{c.handler.WithAttrs(attrsOf(fields[:n])).WithGroup(field.Key)}.With(fields[n+1:])
		}
	}
	return core{c.handler.WithAttrs(attrsOf(fields))}
}

// Check implements [zapcore.Core].
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements [zapcore.Core].
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	var caller uintptr
	if entry.Caller.Defined {
		caller = entry.Caller.PC + 1 // slog expects a return address
	}
	record := slog.NewRecord(entry.Time, slogLevel(entry.Level), entry.Message, caller)
	if entry.LoggerName != "" {
		record.AddAttrs(slog.String("logger", entry.LoggerName))
	}
	record.AddAttrs(attrsOf(fields)...)
	if entry.Stack != "" {
		record.AddAttrs(slog.String("stack", entry.Stack))
	}
	return c.handler.Handle(context.Background(), record)
}

// Sync implements [zapcore.Core].
func (core) Sync() error { return nil }

// slogLevel returns the level of slog. Both count the levels below Debug one by one.
func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug + slog.Level(level-zapcore.DebugLevel)
}

// attrsOf returns the attributes of fields. Fields after a namespace are in its group.
func attrsOf(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for n, field := range fields {
		switch field.Type {
		case zapcore.ErrorType:
			attrs = append(attrs, slog.Any(field.Key, field.Interface)) // handlers may need the error itself
		case zapcore.NamespaceType:
			return append(attrs, slog.Attr{Key: field.Key, Value: slog.GroupValue(attrsOf(fields[n+1:])...)})
		default:
			encoded := zapcore.NewMapObjectEncoder()
			field.AddTo(encoded)
			for _, key := range slices.Sorted(maps.Keys(encoded.Fields)) {
				attrs = append(attrs, slog.Any(key, encoded.Fields[key]))
			}
		}
	}
	return attrs
}
