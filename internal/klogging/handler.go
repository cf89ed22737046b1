package klogging

import (
	"context"
	"log/slog"
	"runtime"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Handler returns a handler that logs by zap. Levels below Info are those of zap: V(n) is -n.
func Handler(logger *zap.Logger) slog.Handler { return &handler{logger: logger} }

// handler logs by zap.
type handler struct {
	logger *zap.Logger
	groups []string // that have nothing in them yet
}

var _ slog.Handler = (*handler)(nil)

// Enabled implements [slog.Handler].
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.logger.Core().Enabled(zapLevel(level))
}

// Handle implements [slog.Handler].
func (h *handler) Handle(_ context.Context, record slog.Record) error {
	entry := h.logger.Check(zapLevel(record.Level), record.Message)
	if entry == nil {
		return nil
	}
	if entry.Caller.Defined && record.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{record.PC}).Next()
		entry.Caller = zapcore.NewEntryCaller(frame.PC, frame.File, frame.Line, true)
	}
	attrs := make([]slog.Attr, 0, record.NumAttrs())
	record.Attrs(func(attr slog.Attr) bool {
		attrs = append(attrs, attr)
		return true
	})
	entry.Write(h.grouped(attrs)...)
	return nil
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := h.grouped(attrs)
	if len(fields) == 0 {
		return h
	}
	return &handler{logger: h.logger.With(fields...)}
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{logger: h.logger, groups: append(slices.Clip(h.groups), name)}
}

// grouped returns what attributes say, within the groups that had nothing in them yet.
func (h *handler) grouped(attrs []slog.Attr) []zap.Field {
	fields := fieldsOf(attrs)
	if len(fields) == 0 || len(h.groups) == 0 {
		return fields
	}
	var all []zap.Field
	for _, group := range h.groups {
		all = append(all, zap.Namespace(group))
	}
	return append(all, fields...)
}

// zapLevel returns the level of zap that is meant. Those below Info are counted one by one
// in both.
func zapLevel(level slog.Level) zapcore.Level {
	switch {
	case level >= slog.LevelError:
		return zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		return zapcore.WarnLevel
	case level >= slog.LevelInfo:
		return zapcore.InfoLevel
	}
	return zapcore.Level(max(level, -100))
}

func fieldsOf(attrs []slog.Attr) []zap.Field {
	fields := make([]zap.Field, 0, len(attrs))
	for _, attr := range attrs {
		fields = appendField(fields, attr)
	}
	return fields
}

// appendField adds what an attribute says. A group without a name is what is in it.
func appendField(fields []zap.Field, attr slog.Attr) []zap.Field {
	value := attr.Value.Resolve()
	switch {
	case value.Kind() != slog.KindGroup:
		if attr.Key == "" && value.Any() == nil {
			return fields
		}
		return append(fields, zap.Any(attr.Key, value.Any()))
	case attr.Key == "":
		return append(fields, fieldsOf(value.Group())...)
	}
	if within := fieldsOf(value.Group()); len(within) > 0 {
		fields = append(fields, zap.Dict(attr.Key, within...))
	}
	return fields
}
