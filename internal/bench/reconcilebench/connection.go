package reconcilebench

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// connection knows when anything was last read from the server.
type connection struct {
	begin time.Time
	last  atomic.Int64 // since begin
}

// watchReads has the reads of a client noted.
func watchReads(config *rest.Config) *connection {
	c := &connection{begin: time.Now()}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, c} })
	return c
}

// since returns how long ago something was last read at a time.
func (c *connection) since(at time.Time) time.Duration {
	return at.Sub(c.begin) - time.Duration(c.last.Load())
}

type transport struct {
	next http.RoundTripper
	*connection
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		response.Body = body{response.Body, t.connection}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	*connection
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.last.Store(int64(time.Since(b.begin)))
	}
	return n, err
}
