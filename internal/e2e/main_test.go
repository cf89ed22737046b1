package e2e

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// newClientset returns a clientset whose connections end with the test.
func newClientset(t *testing.T, server *apiserver.Server) kubernetes.Interface {
	t.Helper()
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return clientset
}

// background runs something until the end of the test, or until the returned function is called, which waits for its end and returns its error.
func background(t *testing.T, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- run(ctx) }()
	stop = func() error {
		cancel()
		err := <-result
		result <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// await waits for a channel to be closed, as long as the test may run.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-t.Context().Done():
		t.Fatalf("the test ended while it waited for %s", what)
	}
}
