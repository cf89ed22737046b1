package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "k"}}],
"clusters": [{"name": "k", "cluster": {"server": "%s"}}]}`

// kubeconfigFor writes a kubeconfig whose API server is at an address.
func kubeconfigFor(t *testing.T, server string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, kubeconfig, server), 0o600))
	return file
}

func TestExamplesRunInMemoryWhateverKubeconfigIsSet(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfigFor(t, "https://192.0.2.1:6443"))
	c, closeCluster, err := connect(t.Context(), "")
	require.NoError(t, err)
	defer closeCluster()
	assert.NotNil(t, c.Memory)
	assert.NotContains(t, c.Config.Host, "192.0.2.1")
}

func TestFlagChoosesTheCluster(t *testing.T) {
	server := reflectortest.Start(t, reflectortest.OnPort())
	c, _, err := connect(t.Context(), kubeconfigFor(t, server.URL()))
	require.NoError(t, err)
	assert.Nil(t, c.Memory)
	assert.Equal(t, server.URL(), c.Config.Host)
}

func TestMissingKubeconfigIsNamed(t *testing.T) {
	_, _, err := connect(t.Context(), filepath.Join(t.TempDir(), "missing"))
	assert.ErrorContains(t, err, "missing")
}

func TestUnreachableServerIsReportedWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "https://192.0.2.1:6443", Transport: silent{}}
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		begin := time.Now()
		err = Cluster{Interface: clientset, Config: config}.reach(t.Context())
		assert.ErrorContains(t, err, "192.0.2.1:6443")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(begin), 5*time.Second)
	})
}

// silent is a network that delivers nothing.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestStepsRunInOrderUntilOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []int
		no := errors.New("no")
		step := func(n int, err error) func() error {
			return func() error { done = append(done, n); return err }
		}
		assert.NoError(t, Steps(t.Context(), step(1, nil), step(2, nil)))
		assert.ErrorIs(t, Steps(t.Context(), step(3, no), step(4, nil)), no)
		assert.Equal(t, []int{1, 2, 3}, done)
	})
}

func TestRefusedConnectionIsReportedAtOnce(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	_, _, err := connect(t.Context(), kubeconfigFor(t, closed.URL))
	assert.ErrorContains(t, err, closed.URL)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestExampleForMemoryOnlyRefusesACluster(t *testing.T) {
	ran := false
	example := InMemoryOnly(func(context.Context, io.Writer, Cluster) error { ran = true; return nil })
	assert.ErrorContains(t, example(t.Context(), io.Discard, Cluster{}), "-kubeconfig")
	assert.False(t, ran)
}

func TestExampleEndsWithItsDemo(t *testing.T) {
	no := errors.New("no")
	untilStopped := func(ctx context.Context, _ io.Writer, _ Cluster) error { <-ctx.Done(); return nil }
	fails := func(context.Context, io.Writer, Cluster) error { return no }
	c, err := Of(reflectortest.Start(t))
	require.NoError(t, err)
	assert.ErrorIs(t, With(untilStopped, fails)(t.Context(), io.Discard, c), no)
	assert.ErrorIs(t, With(fails, untilStopped)(t.Context(), io.Discard, c), no)
	assert.ErrorIs(t, With(fails, nil)(t.Context(), io.Discard, Cluster{}), no, "a cluster has no demo")
}
