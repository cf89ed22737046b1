package manager

import (
	"context"
	"log/slog"
	"runtime"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// RouteKlog has all that client-go logs, and whatever else uses klog, go to a logger, until
// restore is called. klog has one logger for the whole process, and does not guard it: call
// RouteKlog before anything logs, such as at the beginning of main, and restore, if at all,
// when nothing does any more. [WithKlog] does it for a manager.
//
// The verbosity V(n) is level -n of zap, so that zap's Debug is V(1). More of it is a
// decision of its own: from V(8) on client-go logs what it sends and receives. Code that
// calls klog.V itself follows klog's flag -v as well. klog's warnings come as Info: it does
// not pass on that they are any.
func RouteKlog(logger *zap.Logger) (restore func()) {
	before := klog.CaptureState()
	klog.SetSlogLogger(slog.New(&klogHandler{logger: logger}))
	return before.Restore
}

// klogHandler logs by zap.
type klogHandler struct {
	logger *zap.Logger
	groups []string // that have nothing in them yet
}

var _ slog.Handler = (*klogHandler)(nil)

// Enabled implements [slog.Handler].
func (h *klogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.logger.Core().Enabled(zapLevel(level))
}

// Handle implements [slog.Handler].
func (h *klogHandler) Handle(_ context.Context, record slog.Record) error {
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
func (h *klogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := h.grouped(attrs)
	if len(fields) == 0 {
		return h
	}
	return &klogHandler{logger: h.logger.With(fields...)}
}

// WithGroup implements [slog.Handler].
func (h *klogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &klogHandler{logger: h.logger, groups: append(slices.Clip(h.groups), name)}
}

// grouped returns what attributes say, within the groups that had nothing in them yet.
func (h *klogHandler) grouped(attrs []slog.Attr) []zap.Field {
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
