package restguard

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

const (
	// connecting is how many requests may wait for a connection at once. HTTP/2 needs a connection for
	// hundreds of requests, but net/http opens one for each request that finds none: 500 watches that begin
	// at once would make 250 TLS handshakes. Over HTTP/1.1 each watch needs its own; a limit of one would
	// make them wait for each other.
	connecting = 4

	// patience is how long the others wait for a request that has no connection yet. So a transport that
	// never tells, such as a double, and a connection that opens slowly do not stop them.
	patience = time.Second
)

// FewConnections returns a transport for many requests that begin together. Some wait until others have a
// connection, which they can share. The wait is a part of the time that a request may take.
func FewConnections(to http.RoundTripper) http.RoundTripper {
	return &fewConnections{to, make(chan struct{}, connecting), patience}
}

type fewConnections struct {
	http.RoundTripper
	slots    chan struct{} // has a value for each request without a connection
	patience time.Duration
}

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (f *fewConnections) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

func (f *fewConnections) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case f.slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, context.Cause(r.Context())
	}
	release := sync.OnceFunc(func() { <-f.slots })
	late := time.AfterFunc(f.patience, release)
	connected := func(httptrace.GotConnInfo) {
		late.Stop()
		release()
	}
	defer connected(httptrace.GotConnInfo{})
	return f.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: connected})))
}
