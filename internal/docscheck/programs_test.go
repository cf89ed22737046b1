package docscheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsCompile builds every whole program that a page shows.
func TestProgramsCompile(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := files(os.DirFS(root), ".md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(string(text), "go") {
			if !strings.HasPrefix(block.text, "package ") {
				continue
			}
			shown[page]++
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(block.text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file)
			command.Dir = root
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: the program does not compile: %v\n%s", page, block.number, err, out)
			}
		}
	}
	if shown["README.md"] == 0 {
		t.Error("README.md shows no program")
	}
}
