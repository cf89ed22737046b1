package informer

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// silence is a network whose connections stay open and carry nothing while it is silent, as behind a firewall that drops packets.
type silence struct {
	mu    sync.Mutex
	ended chan struct{} // closed unless it is silent
}

func newSilence(config *rest.Config) *silence {
	s := &silence{ended: make(chan struct{})}
	close(s.ended)
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &silentConn{Conn: conn, silence: s, closed: make(chan struct{})}, err
	}
	return s
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = make(chan struct{})
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
}

// silentConn holds back what the server says while there is silence.
type silentConn struct {
	net.Conn
	silence *silence
	once    sync.Once
	closed  chan struct{}
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.silence.mu.Lock()
	ended := c.silence.ended
	c.silence.mu.Unlock()
	select {
	case <-ended:
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestInformerSurvivesSilentNetwork has an hour of silence, which nothing but a time-out tells from a quiet resource.
func TestInformerSurvivesSilentNetwork(t *testing.T) {
	const staleness = time.Minute
	clients := map[string]func(*testing.T, *rest.Config) *Informer[*corev1.Pod]{
		"resource": func(t *testing.T, config *rest.Config) *Informer[*corev1.Pod] {
			resource, err := client.ForResource[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "default")
			require.NoError(t, err)
			return New(resource, WithStaleness(staleness))
		},
		"clientset": func(t *testing.T, config *rest.Config) *Informer[*corev1.Pod] {
			clientset, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			return New(clientset.CoreV1().Pods("default"), WithStaleness(staleness))
		},
	}
	cases := map[string]struct {
		first bool // the silence comes before the first request
		// unknown is how long the informer may take for ready what is not.
		unknown time.Duration
	}{
		"before the first list": {true, 0},
		"while it watches":      {false, watchLife + staleness + 2*time.Minute},
	}
	for api, newInformer := range clients {
		for name, c := range cases {
			t.Run(api+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					require.NoError(t, server.Create(onNode("a", "n1")))
					config := server.Config()
					network := newSilence(config)
					if c.first {
						network.begin()
					}
					i := newInformer(t, config)
					stop := start(t, i)
					synctest.Wait()
					if !c.first {
						require.NoError(t, i.Ready())
						network.begin()
					}
					requests := len(server.Requests())
					require.NoError(t, server.Create(onNode("b", "n1")))
					require.NoError(t, server.Delete(onNode("a", "")))

					<-time.After(c.unknown)
					assert.Error(t, i.Ready(), "%+v", i.State())
					<-time.After(time.Hour - c.unknown)
					assert.Error(t, i.Ready(), "%+v", i.State())
					assert.NotNil(t, i.State().Err)
					assert.LessOrEqual(t, len(server.Requests())-requests, 60, "the reflector backs off, and gives no request up at once")

					network.end()
					<-time.After(15 * time.Minute) // of a request that is on its way, and a back-off
					require.NoError(t, i.Ready())
					assert.Equal(t, 1, i.Cache().Len())
					_, ok := i.Cache().Get(store.Key{Namespace: "default", Name: "b"})
					assert.True(t, ok)
					require.NoError(t, stop())
				})
			})
		}
	}
}
