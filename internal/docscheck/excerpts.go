package docscheck

import (
	"fmt"
	"io/fs"
	"strings"
)

// excerpts says which pages show parts of which Go file, so that what they show compiles and runs.
var excerpts = map[string]string{"docs/from-client-go.md": "informer/clientgo/example_test.go"}

// Excerpts returns one line for each Go block of a page that repeats a Go file and is not in it, line by line; indentation and blank lines at the ends do
// not count.
func Excerpts(repository fs.FS) ([]string, error) {
	var problems []string
	for page, source := range excerpts {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		code, err := fs.ReadFile(repository, source)
		if err != nil {
			return nil, err
		}
		have := "\n" + unindented(string(code)) + "\n"
		blocks := goBlocks(string(text))
		if len(blocks) == 0 {
			problems = append(problems, fmt.Sprintf("%s: it shows nothing of %s", page, source))
		}
		for _, block := range blocks {
			if !strings.Contains(have, "\n"+unindented(block.text)+"\n") {
				problems = append(problems, fmt.Sprintf("%s:%d: the Go block is not in %s", page, block.number, source))
			}
		}
	}
	return problems, nil
}

// goBlocks returns the Go blocks of a page, with the lines on which they begin.
func goBlocks(page string) []line {
	var blocks []line
	var open *line
	for i, text := range strings.Split(page, "\n") {
		switch {
		case open == nil && strings.TrimSpace(text) == "```go":
			open = &line{number: i + 1}
		case open != nil && strings.TrimSpace(text) == "```":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += text + "\n"
		}
	}
	return blocks
}

func unindented(code string) string {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
