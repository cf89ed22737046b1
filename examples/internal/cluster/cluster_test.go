package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "k"}}],
"clusters": [{"name": "k", "cluster": {"server": "https://192.0.2.1:6443"}}]}`

func TestConnect(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))

	c, closeCluster, err := connect("")
	require.NoError(t, err)
	assert.False(t, c.Real, "nothing is named: in memory")
	closeCluster()

	c, _, err = connect(file)
	require.NoError(t, err)
	assert.True(t, c.Real)
	assert.Equal(t, "192.0.2.1:6443", c.CoreV1().RESTClient().Get().URL().Host)

	_, _, err = connect(file + ".missing")
	assert.ErrorContains(t, err, "missing", "the file is named")

	t.Setenv("KUBECONFIG", file)
	c, _, err = connect("")
	require.NoError(t, err)
	assert.True(t, c.Real)
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
