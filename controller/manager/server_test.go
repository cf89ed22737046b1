package manager

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServerRunsForAsLongAsAnythingDoes(t *testing.T) {
	var notes journal
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	m := New(nil, WithServer("127.0.0.1:0"), WithHandler("/metrics", hello))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string) (int, string) {
		answer, err := client.Get("http://" + m.Address() + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	up, address := make(chan struct{}, 9), ""
	m.Add(&member{name: "base", notes: &notes, run: func(ctx context.Context) error {
		up <- struct{}{}
		<-ctx.Done()
		code, _ := ask("/healthz")
		assert.Equal(t, 200, code)
		code, _ = ask("/readyz")
		assert.Equal(t, 503, code, "it is ending")
		return nil
	}})
	for range 2 {
		assert.Empty(t, m.Address())
		stop := start(t, m)
		<-up
		address = m.Address()
		code, text := ask("/readyz?verbose")
		assert.Equal(t, 200, code)
		assert.Contains(t, text, "base")
		_, text = ask("/metrics")
		assert.Equal(t, "hello", text)

		busy := New(nil, WithServer(address))
		busy.Add(&member{name: "never", notes: &notes})
		assert.ErrorContains(t, busy.Run(t.Context()), address)
		require.NoError(t, stop())
	}
	_, err := client.Get("http://" + address + "/healthz")
	assert.Error(t, err, "it is shut down")
	assert.NotContains(t, notes.take(), "never begins")
}

func TestHandlerOfAPatternThatIsTakenPanics(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	m := New(nil, WithServer(address), WithHandler("/healthz", http.NotFoundHandler()))
	assert.Panics(t, func() { _ = m.Run(t.Context()) })
	again, err := net.Listen("tcp", address)
	require.NoError(t, err, "the address is left alone")
	require.NoError(t, again.Close())
}
