package manager

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// patience is how long anything may take before a test fails: the machine may be slow.
const patience = 3 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	require.NoError(t, err, "waited for: %s", what)
}

// connect returns a namespace of the server, and how to get there. The connections end with the test.
func connect(t *testing.T) (config *rest.Config, clientset kubernetes.Interface, namespace string) {
	t.Helper()
	server := shared.Server(t)
	config = server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	clientset, err = kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return config, clientset, server.Namespace(t)
}
