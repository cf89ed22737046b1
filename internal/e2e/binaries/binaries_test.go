package binaries

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The real build, if the cache does not have its result yet. Documented as the way to build with a timeout of one's own.
func TestFindReturnsProgramsThatRun(t *testing.T) {
	ctx := t.Context()
	if deadline, set := t.Deadline(); set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-15*time.Second)) // an error says more than the panic of the testing package
		defer cancel()
	}
	found, err := Find(ctx)
	require.NoError(t, err)
	for _, program := range []string{found.APIServer, found.Etcd} {
		output, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
		require.NoError(t, err, "%s", output)
		if found.Version != "" && program == found.APIServer {
			require.Equal(t, "Kubernetes "+found.Version+"\n", string(output))
		}
	}
}

func TestAssetsOfTheUserAreUsedAsTheyAre(t *testing.T) {
	assets := t.TempDir()
	writePrograms(t, assets)
	t.Setenv(assetsVariable, assets)
	t.Setenv("HOME", filepath.Join(assets, "no such home"))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("PATH", "") // a build would not find the go command
	t.Chdir(t.TempDir()) // nor its source

	found, err := Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, &Binaries{APIServer: filepath.Join(assets, "kube-apiserver"), Etcd: filepath.Join(assets, "etcd")}, found)
	require.NoDirExists(t, filepath.Join(assets, "no such home"))
}

func TestAssetsOfTheUserMayBeARelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	working, err := os.Getwd()
	require.NoError(t, err)
	writePrograms(t, "bin")
	t.Setenv(assetsVariable, "bin")

	found, err := Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(working, "bin", "etcd"), found.Etcd)
}

func TestAssetsOfTheUserThatAreIncompleteAreAnErrorAndNotABuild(t *testing.T) {
	assets := t.TempDir()
	writePrograms(t, assets)
	require.NoError(t, os.Remove(filepath.Join(assets, "etcd")))
	t.Setenv(assetsVariable, assets)

	_, err := Find(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, assets)
	require.ErrorContains(t, err, "it has no etcd")
	require.ErrorContains(t, err, "unset it to have them built")
}

func TestAFileThatCannotBeRunIsNoProgram(t *testing.T) {
	folder := t.TempDir()
	writePrograms(t, folder)
	require.NoError(t, complete(folder))

	require.NoError(t, os.Chmod(filepath.Join(folder, etcdName), 0o644))
	require.ErrorContains(t, complete(folder), "its etcd is not a program")

	writePrograms(t, folder)
	require.NoError(t, os.Truncate(filepath.Join(folder, apiServerName), 0))
	require.ErrorContains(t, complete(folder), "its kube-apiserver is not a program")
}
