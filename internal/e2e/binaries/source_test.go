package binaries

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceIsFoundFromAnyFolderOfAClone(t *testing.T) {
	clone := t.TempDir()
	source := filepath.Join(clone, "internal", "controlplane")
	writeFile(t, filepath.Join(source, "go.mod"), "module "+sourceModule+"\n", 0o644)
	deep := filepath.Join(clone, "internal", "bench", "deep")
	writeFile(t, filepath.Join(deep, "go.mod"), "module example.com/bench\n", 0o644)

	for _, from := range []string{clone, filepath.Join(clone, "internal"), source, deep} {
		found, err := findSource(from)
		require.NoError(t, err, from)
		require.Equal(t, source, found, from)
	}
}

func TestSourceOfAnotherModuleIsNotTaken(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "internal", "controlplane", "go.mod"), "module example.com/other/internal/controlplane\n", 0o644)

	_, err := findSource(folder)
	require.ErrorContains(t, err, "run from within a clone")
	require.ErrorContains(t, err, assetsVariable)
}
