package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubereflector/kubereflector/internal/klogging"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// Address returns the address of the server, such as "127.0.0.1:8081"; empty unless it listens.
func (m *Manager) Address() string {
	if address := m.served.Load(); address != nil {
		return *address
	}
	return ""
}

// serve starts the server, if the options have one, and returns how to end it. If the server fails,
// it calls stop.
func (m *Manager) serve(ctx context.Context, stop func()) (end func() error, err error) {
	if m.address == "" {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux() // first, since it panics for an invalid pattern
	mux.Handle("/healthz", m.Healthz())
	mux.Handle("/readyz", m.Readyz())
	for _, r := range m.routes {
		mux.Handle(r.pattern, r.handler)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(context.WithoutCancel(ctx), "tcp", m.address) // ctx may have ended by a signal: that is no failure
	if err != nil {
		return nil, fmt.Errorf("server of health: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: zap.NewStdLog(m.logger)}
	address := listener.Addr().String()
	m.served.Store(&address)
	result := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		stop()
		result <- err // last: Run returns when it has the result
	}()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // closes the requests that do not end
		}
		m.served.Store(nil)
		if err := <-result; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("server of health: %w", err)
		}
		return nil
	}, nil
}

// shutdownTimeout is how long requests may take after all members have ended.
const shutdownTimeout = 2 * time.Second

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
	signals := make(chan os.Signal, 2) // SIGINT and SIGTERM may come at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case got := <-signals:
			// Before the context ends: a further signal ends the process.
			signal.Stop(signals)
			cancel(&SignalError{Signal: got})
			select {
			case again := <-signals: // caught before Stop, and so not acted on
				if self, err := os.FindProcess(os.Getpid()); err == nil {
					_ = self.Signal(again)
				}
			default:
			}
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

// RouteKlog sends the log lines of client-go, and of any other user of klog, to a logger, until
// restore is called. klog has one logger for the whole process, without a lock: call RouteKlog
// before any code logs, such as at the beginning of main. Call restore, if at all, after all
// logging has ended. [WithKlog] calls RouteKlog for a manager.
//
// The verbosity V(n) becomes level -n of zap, so zap's Debug is V(1). Enable higher verbosity with
// care: from V(8) on client-go logs the contents of requests and answers. Code that calls klog.V
// also follows klog's flag -v. klog's warnings arrive as Info, because klog does not pass the
// difference on.
func RouteKlog(logger *zap.Logger) (restore func()) {
	before := klog.CaptureState()
	klog.SetSlogLogger(slog.New(klogging.Handler(logger)))
	return before.Restore
}
