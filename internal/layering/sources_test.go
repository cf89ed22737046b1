package layering

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources opens all folders of the module, so that go test knows what a result depends on, and
// does not take an old one from its cache when another package has changed.
func sources(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	}))
}
