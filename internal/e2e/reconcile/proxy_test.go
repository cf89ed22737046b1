package reconcile

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

// proxy stands between a controller and the server, in a test that does harm to what goes through.
type proxy struct {
	t          *testing.T
	forward    http.Handler
	listener   *httptest.Server
	kubeconfig string

	// mu protects the fields below it.
	mu sync.Mutex
	// harm gets each write before the server does, and may answer it.
	harm  func(http.ResponseWriter, *http.Request) (answered bool)
	cut   bool        // nobody gets through
	codes map[int]int // how often writes were answered by what
}

func startProxy(t *testing.T, server *apiserver.Server) *proxy {
	t.Helper()
	config := server.Config()
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	target, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	p := &proxy{t: t, codes: map[int]int{}, forward: &httputil.ReverseProxy{
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0), // those who are cut off
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}}
	p.listener = httptest.NewServer(p)
	p.kubeconfig = apiserver.WriteKubeconfig(t, &rest.Config{Host: p.listener.URL})
	t.Cleanup(func() {
		p.listener.CloseClientConnections() // of watches
		p.listener.Close()
		client.CloseIdleConnections()
	})
	return p
}

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	harm, cut := p.harm, p.cut
	p.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") {
		p.forward.ServeHTTP(w, r)
		return
	}
	answer := &answer{ResponseWriter: w}
	if harm == nil || !harm(answer, r) {
		p.forward.ServeHTTP(answer, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[answer.code]++
}

// answer knows what was answered.
type answer struct {
	http.ResponseWriter
	code int
}

func (a *answer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// doHarm sets what is done to writes, until the end of the test.
func (p *proxy) doHarm(t *testing.T, harm func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harm = harm
	clear(p.codes)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.harm = nil
	})
}

// answers returns how often writes were answered by a code.
func (p *proxy) answers(code int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.codes[code]
}

// setCut lets nobody through, or everybody, from now on.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	if cut {
		p.listener.CloseClientConnections()
	}
}
