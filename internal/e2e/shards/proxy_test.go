package shards

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

// line is the connection of a process to the server: it counts what comes through, and can be cut, so that nothing does and nobody is told.
type line struct {
	listener   net.Listener
	target     string
	kubeconfig string
	received   atomic.Int64 // bytes from the server

	open sync.WaitGroup

	// mu protects the fields below it.
	mu    sync.Mutex
	whole chan struct{} // closed while something comes through
	conns []net.Conn
	over  bool
}

func newLine(t *testing.T, server *apiserver.Server) *line {
	t.Helper()
	config := server.Config()
	target, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	l := &line{target: target.Host, whole: make(chan struct{})}
	close(l.whole)
	l.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config.Host = (&url.URL{Scheme: target.Scheme, Host: l.listener.Addr().String()}).String()
	l.kubeconfig = apiserver.WriteKubeconfig(t, config)
	l.open.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *line) accept() {
	for {
		here, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.open.Go(func() { l.serve(here) })
	}
}

func (l *line) serve(here net.Conn) {
	defer here.Close()
	there, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer there.Close()
	l.mu.Lock()
	l.conns = append(l.conns, here, there)
	over := l.over
	l.mu.Unlock()
	if over {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer there.Close()
		l.copy(there, here, nil)
	}()
	l.copy(here, there, &l.received)
	_ = here.Close()
	<-sent
}

// copy copies what comes through.
func (l *line) copy(to io.Writer, from io.Reader, count *atomic.Int64) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		whole := l.whole
		l.mu.Unlock()
		<-whole
		if count != nil {
			count.Add(int64(n))
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = make(chan struct{})
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

func (l *line) close() {
	_ = l.listener.Close()
	l.mend()
	l.mu.Lock()
	l.over = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.open.Wait()
}
