package binaries

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writePrograms makes a folder complete, with programs that do nothing.
func writePrograms(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{apiServerName, etcdName} {
		writeFile(t, filepath.Join(folder, name), "#!/bin/sh\n", 0o755)
	}
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
}
