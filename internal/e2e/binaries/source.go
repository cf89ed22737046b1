package binaries

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// sourceModule is the module whose tools the binaries are.
const sourceModule = "github.com/kubereflector/kubereflector/internal/controlplane"

// findSource returns the folder of sourceModule in the clone that contains a folder. It walks up
// the folders. It does not use the path of this file, because -trimpath removes the path. It works
// for the tests of every module of the repository.
func findSource(from string) (string, error) {
	for folder := from; ; {
		candidate := filepath.Join(folder, "internal", "controlplane")
		content, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
		switch {
		case err == nil && modfile.ModulePath(content) == sourceModule:
			return candidate, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for the module %s: %w", sourceModule, err)
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("no folder above %s has the module %s, from which kube-apiserver and etcd are built; run from within a clone of the repository, or set %s to a folder that has both",
				from, sourceModule, assetsVariable)
		}
		folder = parent
	}
}
