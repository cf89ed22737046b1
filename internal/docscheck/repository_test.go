package docscheck

import (
	"os"
	"path/filepath"
	"testing"
)

// The tests of a package run in its folder, two below the root.
func TestRepository(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("this package is no longer two folders below the root of the repository: %v", err)
	}
	repository := os.DirFS(root)
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			problems, err := check(repository)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range problems {
				t.Error(problem)
			}
		})
	}
}
