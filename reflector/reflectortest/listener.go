package reflectortest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// memoryListener is a net.Listener without a network. It and its connections block only on
// channels, so goroutines that wait for one another through it are durably blocked in the sense of
// testing/synctest.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

// DialContext is for rest.Config.Dial. A closed listener refuses connections, as a port without a
// listener does.
func (l *memoryListener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	failure := &atomic.Pointer[error]{}
	select {
	case l.conns <- &memoryConn{Conn: b, failure: failure}:
		return &memoryConn{Conn: a, failure: failure}, nil
	case <-l.closed:
		a.Close()
		b.Close()
		return nil, errRefused
	case <-ctx.Done():
		a.Close()
		b.Close()
		return nil, ctx.Err()
	}
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "memory", Addr: memoryAddr{}, Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "memory", Addr: memoryAddr{}, Err: syscall.ECONNRESET}
)

// memoryConn is one end of a pipe that can end with a network's errors.
type memoryConn struct {
	net.Conn
	failure *atomic.Pointer[error] // shared by both ends
}

// fail sets the error that both ends get once the connection is closed.
func (c *memoryConn) fail(err error) {
	c.failure.Store(&err)
}

func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

func (c *memoryConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

func (c *memoryConn) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		if f := c.failure.Load(); f != nil {
			return *f
		}
	}
	return err
}

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "reflectortest" }
