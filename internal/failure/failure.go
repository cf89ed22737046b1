package failure

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// PanicHook hears of each panic of a handler, which is otherwise retried like an error. It may be nil. A
// simulation sets it.
var PanicHook atomic.Pointer[func(ctx context.Context, value any)]

// Report logs a failure as one line at Error, and then calls the error handler of the user, which
// may be nil. The logger's own stack trace would show this library, so the line has only the stack
// of a panic.
func Report(ctx context.Context, logger *zap.Logger, message string, err *eventqueue.HandlerError, handler func(context.Context, error)) {
	logger = logger.With(zap.Stringer("key", err.Key), zap.String("resourceVersion", err.ResourceVersion))
	final := eventqueue.IsPermanent(err.Err)
	fields := []zap.Field{zap.Int("attempt", err.Attempt), zap.Bool("final", final), zap.Error(err.Err)}
	if !final {
		fields = append(fields, zap.Duration("nextTry", err.RetryIn))
	}
	if panicked, ok := errors.AsType[*eventqueue.PanicError](err); ok {
		fields = append(fields, zap.ByteString("handlerStack", panicked.Stack))
		if hook := PanicHook.Load(); hook != nil {
			(*hook)(ctx, panicked.Value)
		}
	}
	logger.WithOptions(zap.AddStacktrace(zapcore.InvalidLevel)).Error(message, fields...)
	lifecycle.HandleError(ctx, logger, handler, err)
}
