package docscheck

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// leftOut is the line of a block that stands for lines of the file which the page does not show.
const leftOut = "// ..."

// Excerpts returns one line for each Go block of a page that is neither a whole program nor found, line by line, in one Go file that the page links to, and
// for each block of text that is not in the comment of such a file, where tests look for an example's output. Indentation and blank lines at the ends do not
// count, and a line that is only "// ..." stands for any lines.
func Excerpts(repository fs.FS) ([]string, error) {
	pages, err := files(repository, ".md")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		sources, err := linkedSources(repository, page, string(text))
		if err != nil {
			return nil, err
		}
		for _, block := range blocks(string(text), "go") {
			if strings.HasPrefix(block.text, "package ") {
				continue // a whole program, which is built
			}
			shows := func(source string) bool { return isExcerpt(block.text, source) }
			if !slices.ContainsFunc(sources, shows) {
				problems = append(problems, fmt.Sprintf("%s:%d: the Go block is in no Go file that the page links to", page, block.number))
			}
		}
		printed := map[int]bool{}
		for _, output := range outputs(string(text)) {
			printed[output.number] = true // by a command: see Outputs
		}
		for _, block := range blocks(string(text), "text") {
			if printed[block.number] {
				continue
			}
			output := "// " + strings.ReplaceAll(strings.TrimRight(block.text, "\n"), "\n", "\n// ")
			prints := func(source string) bool { return isExcerpt(output, source) }
			if !slices.ContainsFunc(sources, prints) {
				problems = append(problems, fmt.Sprintf("%s:%d: no example in a Go file that the page links to has this output", page, block.number))
			}
		}
	}
	return problems, nil
}

// linkedSources returns the Go files that a page links to, ready to be searched.
func linkedSources(repository fs.FS, page, text string) ([]string, error) {
	var sources []string
	for _, line := range prose(text) {
		for _, target := range targets(line.text) {
			target, _, _ = strings.Cut(target, "#")
			name := path.Join(path.Dir(page), target)
			if path.Ext(name) != ".go" || !fs.ValidPath(name) {
				continue
			}
			code, err := fs.ReadFile(repository, name)
			if err != nil {
				continue // Links says so
			}
			sources = append(sources, "\n"+unindented(string(code))+"\n")
		}
	}
	return sources, nil
}

// isExcerpt is whether the parts of a block are in a source, in their order.
func isExcerpt(block, source string) bool {
	rest := source
	for part := range strings.SplitSeq("\n"+unindented(block)+"\n", "\n"+leftOut+"\n") {
		part = "\n" + strings.Trim(part, "\n") + "\n"
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part)-1:] // the next part may begin with the line end of this one
	}
	return true
}

func unindented(code string) string {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
