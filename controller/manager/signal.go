package manager

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is the cause of the context of [SignalContext] when a signal arrives.
type SignalError struct {
	// Signal is the received signal.
	Signal os.Signal
}

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("got signal: %v", e.Signal) }

// SignalContext returns a context that ends at SIGTERM or SIGINT, with a [*SignalError] as its
// cause. The second such signal is not caught: it ends the process at once. The returned function
// stops catching signals; call it when Run has returned.
func SignalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case got := <-signals:
			// Before the context ends: a further signal ends the process.
			signal.Stop(signals)
			cancel(&SignalError{Signal: got})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() {
		// Synchronously: from now on a signal ends the process.
		signal.Stop(signals)
		cancel(nil)
	}
}
