package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

const (
	// patience is how long a client may take to send the head of a request.
	patience = 10 * time.Second
	// idle is how long a connection may wait for its next request.
	idle = 2 * time.Minute
	// goodbye is how long requests may take after all members have ended.
	goodbye = 2 * time.Second
)

// serving is one run of the server. The zero one serves nothing.
type serving struct {
	server *http.Server
	result chan error
	ended  func()
}

// Address returns the address of the server, such as "127.0.0.1:8081"; empty unless it listens.
func (m *Manager) Address() string {
	if address := m.served.Load(); address != nil {
		return *address
	}
	return ""
}

// serve starts the server, if the options have one. If the server fails, it calls stop.
func (m *Manager) serve(ctx context.Context, stop func()) (*serving, error) {
	if m.address == "" {
		return &serving{}, nil
	}
	mux := http.NewServeMux() // first, since it panics for an invalid pattern
	mux.Handle("/healthz", m.Healthz())
	mux.Handle("/readyz", m.Readyz())
	for _, r := range m.routes {
		mux.Handle(r.pattern, r.handler)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", m.address)
	if err != nil {
		return nil, fmt.Errorf("server of health: %w", err)
	}
	s := &serving{
		server: &http.Server{Handler: mux, ReadHeaderTimeout: patience, IdleTimeout: idle, ErrorLog: zap.NewStdLog(m.logger)},
		result: make(chan error, 1),
		ended:  func() { m.served.Store(nil) },
	}
	address := listener.Addr().String()
	m.served.Store(&address)
	go func() {
		err := s.server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.result <- err
		stop()
	}()
	return s, nil
}

// close ends the server.
func (s *serving) close() error {
	if s.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // closes the requests that do not end
	}
	s.ended()
	if err := <-s.result; err != nil {
		return fmt.Errorf("server of health: %w", err)
	}
	return nil
}
