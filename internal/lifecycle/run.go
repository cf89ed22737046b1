package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"
)

// ErrRunning is what each Run returns while another Run of the same value has not returned. Packages
// with a Run export this value. [AlreadyRunning] says what runs.
var ErrRunning = errors.New("running already: call Run again when it has returned")

// ErrDrainTimeout is the cause of a drain that ended before all work was done.
var ErrDrainTimeout = fmt.Errorf("drain timeout: %w", context.DeadlineExceeded)

// ErrIncomplete means that a required argument is nil. docs/maintainers/decisions.md has the
// rules for nil arguments.
var ErrIncomplete = errors.New("required argument is nil")

// ErrAbandoned is the result of a Run that called [runtime.Goexit], as FailNow of a test does.
var ErrAbandoned = errors.New("ended by a panic or by runtime.Goexit")

// AlreadyRunning returns an [ErrRunning] that names what is running, such as "informer pods".
func AlreadyRunning(what string) error { return fmt.Errorf("%s is %w", what, ErrRunning) }

// Running admits one Run at a time. The zero value is ready to use.
type Running struct{ active atomic.Bool }

// Begin begins a Run, or returns an [ErrRunning]. The caller of a successful Begin calls end when its
// Run returns.
func (r *Running) Begin(what string) (end func(), err error) {
	if !r.active.CompareAndSwap(false, true) {
		return nil, AlreadyRunning(what)
	}
	return func() { r.active.Store(false) }, nil
}

// Active reports whether a Run has begun and not ended.
func (r *Running) Active() bool { return r.active.Load() }

// HandleError calls the error handler of a user, or nothing if it is nil. A panic of the handler must
// neither end the caller nor affect what failed, so it is only logged, with the given fields.
func HandleError(ctx context.Context, logger *zap.Logger, handler func(context.Context, error), err error, fields ...zap.Field) {
	if handler == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			logger.Error("error handler panicked", append(fields, zap.Any("panic", value), zap.Stack("stack"))...)
		}
	}()
	handler(ctx, err)
}
