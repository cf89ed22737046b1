package reflector_test

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// meter counts what comes from a server.
type meter struct {
	mu      sync.Mutex // protects the fields below
	open    int        // watches
	most    int        // of them at one time
	watched int64      // bytes of all watches
}

// of returns a configuration whose requests are counted.
func (m *meter) of(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{m, next} })
	return config
}

// watches returns how many are open.
func (m *meter) watches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// bytes returns how many came by watches since it was asked last.
func (m *meter) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.watched
	m.watched = 0
	return n
}

type counting struct {
	of *meter
	http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err != nil || !strings.Contains(r.URL.RawQuery, "watch=") || response.StatusCode != http.StatusOK {
		return response, err
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open++
	c.of.most = max(c.of.most, c.of.open)
	response.Body = &countedBody{ReadCloser: response.Body, of: c.of}
	return response, nil
}

type countedBody struct {
	io.ReadCloser
	of   *meter
	once sync.Once
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	b.of.watched += int64(n)
	b.of.mu.Unlock()
	return n, err
}

func (b *countedBody) Close() error {
	b.once.Do(func() {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		b.of.open--
	})
	return b.ReadCloser.Close()
}
