package measure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProfilesAreFilesOfAPhase(t *testing.T) {
	p := Profiles(filepath.Join(t.TempDir(), "ours"))
	stop, err := p.CPU("list")
	require.NoError(t, err)
	require.NoError(t, stop())
	require.NoError(t, p.Heap("list"))
	for _, name := range []string{".list.cpu", ".list.heap"} {
		info, err := os.Stat(string(p) + name)
		require.NoError(t, err)
		assert.Positive(t, info.Size(), name)
	}
	assert.Error(t, (p + "/nowhere/ours").Heap("list"))
}

func TestNoProfilesAreNoFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	stop, err := Profiles("").CPU("list")
	require.NoError(t, err)
	require.NoError(t, stop())
	require.NoError(t, Profiles("").Heap("list"))
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, files)
}
