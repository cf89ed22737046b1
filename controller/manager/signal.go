package manager

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is the cause with which the context of [Signals] ends.
type SignalError struct {
	// Signal is the one that came.
	Signal os.Signal
}

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("got signal: %v", e.Signal) }

// Signals returns a context that ends when the process is told to, by SIGTERM or SIGINT,
// with a [*SignalError] as its cause. The second such signal is no longer caught: it ends
// the process at once, as if nobody had caught the first. The function that is returned
// gives the signals back; call it when Run has returned.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case got := <-signals:
			// Before anybody hears of it: a signal that comes from now on ends the process.
			signal.Stop(signals)
			cancel(&SignalError{Signal: got})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() {
		// When it returns, and not later: a signal is to end the process from now on.
		signal.Stop(signals)
		cancel(nil)
	}
}
