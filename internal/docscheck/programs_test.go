package docscheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// program matches a Go block that is a whole program.
var program = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")

// TestProgramsCompile builds every whole program that a page shows.
func TestProgramsCompile(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, page := range []string{"README.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		found := program.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s shows no program", page)
		}
		for _, match := range found {
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, match[1], 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file)
			command.Dir = root
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("a program of %s does not compile: %v\n%s", page, err, out)
			}
		}
	}
}
