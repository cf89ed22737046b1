package restguard

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gated is a listener that accepts connections once its gate is open.
type gated struct {
	net.Listener
	open <-chan struct{}
}

func (g gated) Accept() (net.Conn, error) {
	<-g.open
	return g.Listener.Accept()
}

func TestRequestsThatBeginTogetherShareConnections(t *testing.T) {
	const requests = 50
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // as a watch
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	open := make(chan struct{})
	server.Listener = gated{server.Listener, open}
	server.StartTLS()
	defer server.Close()

	of := Client(server.Client(), func(to http.RoundTripper) http.RoundTripper {
		few := FewConnections(to).(*fewConnections)
		few.patience = time.Hour // however slow the machine is
		return few
	})
	var begun, answered sync.WaitGroup
	bodies := make(chan io.Closer, requests)
	begun.Add(requests)
	for range requests {
		answered.Go(func() {
			begun.Done()
			response, err := of.Get(server.URL)
			if assert.NoError(t, err) {
				bodies <- response.Body
			}
		})
	}
	begun.Wait()
	close(open)
	answered.Wait()
	close(bodies)
	for body := range bodies {
		require.NoError(t, body.Close())
	}
	assert.LessOrEqual(t, int(connections.Load()), connecting)
}

// silent is a transport that never tells that it has a connection, and does not answer until its context ends.
type silent struct{ begun atomic.Int32 }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.begun.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// noted is a body that notes its end.
type noted struct {
	io.Reader
	closed bool
}

func (n *noted) Close() error {
	n.closed = true
	return nil
}

func TestSilentTransportStopsOtherRequestsForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &silent{}
		of := FewConnections(transport)
		ctx, cancel := context.WithCancel(t.Context())
		var asked sync.WaitGroup
		ask := func(ctx context.Context, body io.Reader) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://apiserver", body)
			if !assert.NoError(t, err) {
				return
			}
			_, err = of.RoundTrip(r)
			assert.ErrorIs(t, err, context.Canceled)
		}
		for range 3 * connecting {
			asked.Go(func() { ask(ctx, http.NoBody) })
		}
		synctest.Wait()
		assert.EqualValues(t, connecting, transport.begun.Load())
		<-time.After(patience + time.Millisecond)
		assert.EqualValues(t, 2*connecting, transport.begun.Load())

		ended, end := context.WithCancel(t.Context())
		end()
		body := &noted{Reader: strings.NewReader("x")}
		ask(ended, body)
		assert.True(t, body.closed)
		assert.EqualValues(t, 2*connecting, transport.begun.Load(), "a request that nobody waits for any more")

		cancel()
		asked.Wait()
		assert.Empty(t, of.(*fewConnections).slots, "a request without an answer keeps no slot")
	})
}
